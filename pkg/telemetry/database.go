package telemetry

import (
	"database/sql"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// WatchPool registers the metrics go_sql_* of a connection pool, with the given name as their label db_name. When a
// statement has to wait because all connections are in use, go_sql_wait_count_total rises.
func WatchPool(reg prometheus.Registerer, db *sql.DB, name string) error {
	return reg.Register(collectors.NewDBStatsCollector(db, name))
}
