package telemetry

import (
	"database/sql"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// WatchPool registers the metrics of a connection pool: go_sql_* with the label db_name. When all connections are in
// use, go_sql_wait_count_total rises.
func WatchPool(reg prometheus.Registerer, db *sql.DB, name string) error {
	return reg.Register(collectors.NewDBStatsCollector(db, name))
}
