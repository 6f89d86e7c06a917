package audit

import (
	"testing"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

func TestMain(m *testing.M) { stacktest.Main(m) }

// TestPlans: no query scans the whole audit trail, neither with the custom plan for its arguments nor with the generic
// plan.
func TestPlans(t *testing.T) {
	db := postgrestest.Fresh(t)
	db.SetMaxOpenConns(1) // one session for all statements, because plans and settings belong to a session
	postgrestest.SeedAudit(t, db)
	id := "'" + uuid.NewString() + "'"
	postgrestest.WantPlans(t, db, []string{"audit"}, []postgrestest.Plan{
		{"Performed", performedQuery, []string{id}, []string{"idx_audit_operation"}},
		{"PerformedOn", performedOnQuery, []string{id, "'dead'", "'{" + uuid.NewString() + "}'"}, []string{"idx_audit_object"}},
		{"Record", RecordQuery, []string{
			"NULL", "'unmask'", "'alice'", "NULL", "NULL", "NULL", id, "'list'",
			"'" + uuid.Nil.String() + "'", "NULL", "NULL", "NULL", "NULL", "NULL",
		}, []string{"idx_audit_operation"}},
	})
}
