package telemetry

import (
	"database/sql"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// WatchPool registers the metrics of a connection pool: go_sql_* with the label
// db_name. A pool that is used up shows in go_sql_wait_count_total.
func WatchPool(reg prometheus.Registerer, db *sql.DB, name string) error {
	return reg.Register(collectors.NewDBStatsCollector(db, name))
}
