package postgres

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// TestActivityPlans: what came over time is read from the rows of that time alone,
// and never from the messages; to forget what is old is to look at one end of an index.
func TestActivityPlans(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	db.SetMaxOpenConns(1) // plans and settings belong to one session
	exec(t, db, `INSERT INTO dlq.activity
		SELECT 'topic' || topic, minutes, date_bin(minutes * interval '1 minute', now(), 'epoch') - n * minutes * interval '1 minute', 3, 1
		FROM (VALUES (5, 24), (60, 8 * 24)) s (minutes, steps), generate_series(0, steps) n, generate_series(1, 200) topic`)
	exec(t, db, `VACUUM ANALYZE dlq.activity`)
	span := func(of, minutes string) []string {
		return []string{minutes, "now() - interval '" + of + "'", "now()", "3600000000"}
	}
	for _, c := range []struct {
		name, query string
		args        []string
		index       string
	}{
		{"Hour", arrivalsQuery, span("1 hour", "5"), "idx_activity_at"},
		{"Day", arrivalsQuery, span("1 day", "60"), "idx_activity_at"},
		{"HourOfATopic", arrivalsOfTopicsQuery, append(span("1 hour", "5"), "'{topic7}'"), "activity"},
		{"WeekOfATopic", arrivalsOfTopicsQuery, append(span("7 days", "60"), "'{topic7}'"), "activity_pkey"},
		{"Topics", activityTopicsQuery + " AND $1", []string{"true"}, "activity_pkey"},
		{"Store", storeDocumentsQuery, []string{
			"'{" + uuid.NewString() + "}'", "'{a}'", "'{\"{}\"}'", "1", "NULL", "7200000000", "691200000000",
		}, "idx_activity_at"},
	} {
		for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
			plan := explain(t, db, mode, c.query, c.args)
			if strings.Contains(plan, "Seq Scan on activity") || !strings.Contains(plan, c.index) {
				t.Errorf("%s, %s: it does not use %s:\n%s", c.name, mode, c.index, plan)
			}
			if c.name != "Store" && strings.Contains(plan, "dlq_messages") {
				t.Errorf("%s, %s: it looks at messages:\n%s", c.name, mode, plan)
			}
		}
	}
}

// TestActivityForgets what is old a part at a time, and leaves to others what they
// are at.
func TestActivityForgets(t *testing.T) {
	t.Parallel()
	f := newFinder(t)
	exec(t, f.db, `INSERT INTO dlq.activity SELECT 'orders', 60, $1::timestamptz - (9 + n) * interval '1 day', 1, 0 FROM generate_series(1, 1500) n`, f.now)
	exec(t, f.db, `INSERT INTO dlq.activity SELECT 'orders', 5, $1::timestamptz - (3 + n) * interval '1 hour', 1, 0 FROM generate_series(1, 500) n`, f.now)
	exec(t, f.db, `INSERT INTO dlq.activity VALUES ('orders', 60, $1, 1, 0)`, f.now.Add(-7*24*time.Hour))
	holder, err := f.db.Beginx()
	wantNil(t, err)
	defer func() { _ = holder.Rollback() }()
	_, err = holder.Exec(`SELECT FROM dlq.activity WHERE at < $1::timestamptz - interval '1509 days' FOR UPDATE`, f.now.Add(time.Hour))
	wantNil(t, err)
	for _, want := range []int{500 + 1 + 2, 1 + 1 + 4, 1 + 1 + 6} {
		f.insert(f.db, 0) // of a topic of its own
		f.work()
		if got := count(t, f.db, "activity"); got != want {
			t.Errorf("%d rows are left, want %d", got, want)
		}
	}
}
