package ingest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

func TestMain(m *testing.M) { stacktest.Main(m) }

// TestReturnPlans: the queries that recognise returns by their content scan no table, neither with the custom plan for
// their arguments nor with the generic plan.
func TestReturnPlans(t *testing.T) {
	db := postgrestest.Fresh(t)
	db.SetMaxOpenConns(1) // one session for all statements, because plans and settings belong to a session
	postgrestest.SeedMany(t, db)
	postgrestest.SeedSent(t, db)
	list := func(format string) string {
		var parts []string
		for i := range 1000 {
			parts = append(parts, fmt.Sprintf(format, i))
		}
		return "'{" + strings.Join(parts, ",") + "}'"
	}
	hashes, topics, bytes, one := list("%d77"), list("topic%d"), list(`"\\\\x%04d"`), list("%d")
	day := "86400000000"

	postgrestest.WantPlans(t, db, []string{"dlq_messages ", "attempts ", "edits ", "returns ", "committed_offsets ", "dlq_messages_archive "}, []postgrestest.Plan{
		{"WhatWasSent", sentQuery, []string{day, "NULL", hashes, topics}, []string{"idx_attempts_record_hash", "idx_dlq_messages_claimed_hash"}},
		{
			"WhoSentIt", sameQuery,
			[]string{day, "NULL", hashes, topics, bytes, bytes, one, "'{}'", one, "'{" + strings.Repeat("f,", 999) + "f}'"},
			[]string{"idx_attempts_record_hash", "idx_dlq_messages_claimed_hash", "dlq_messages_pkey", "dlq_messages_archive_pkey", "edits_pkey", "returns_pkey"},
		},
	})
}
