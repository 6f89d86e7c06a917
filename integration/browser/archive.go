package browser

import (
	"os/exec"
	"path/filepath"

	"github.com/jmoiron/sqlx"
)

// Archive runs the archiver once, as if the finished messages of a topic were older than the
// retention of the live table. Messages of other topics stay.
func (s *Site) Archive(topic string) {
	s.t.Helper()
	db, err := sqlx.Connect("postgres", s.database)
	if err != nil {
		s.t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(s.t.Context(), `UPDATE dlq.dlq_messages SET updated_at = updated_at - interval '60 days'
		WHERE original_topic = $1 AND status IN ('RESOLVED', 'DEAD')`, topic); err != nil {
		s.t.Fatalf("age the messages of %s: %v", topic, err)
	}
	cmd := exec.CommandContext(s.t.Context(), filepath.Join(s.programs, "archiver"), "--config", s.config)
	if out, err := cmd.CombinedOutput(); err != nil {
		s.t.Fatalf("archiver: %v\n%s", err, out)
	}
}
