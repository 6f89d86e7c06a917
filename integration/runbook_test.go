package integration_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// block is a code block of the runbook that an operator can paste into a shell or psql.
type block struct {
	entry, language, text string
}

// runnable returns the blocks of a page that are marked as runnable, in order.
func runnable(t *testing.T, path string) []block {
	t.Helper()
	raw, err := os.ReadFile(path)
	check.NoError(t, err)
	var blocks []block
	fence := regexp.MustCompile("(?ms)^```(sh|sql) runnable\n(.*?)^```$")
	for _, part := range strings.Split(string(raw), "\n## ") {
		title, body, _ := strings.Cut(part, "\n")
		for _, found := range fence.FindAllStringSubmatch(body, -1) {
			blocks = append(blocks, block{title, found[1], found[2]})
		}
	}
	return blocks
}

// TestRunbook runs every runnable command of the runbook. PENDING messages and a dead one exist from the start. For
// each command that needs one, it creates a message whose attempt cannot be settled, or a redrive that has stopped
// itself.
func TestRunbook(t *testing.T) {
	t.Parallel()
	blocks := runnable(t, "../docs/runbook.md")
	if len(blocks) < 40 {
		t.Fatalf("%d blocks are runnable, want those of each entry", len(blocks))
	}
	n := &night{operators: newOperators(t)}
	for i := range 60 {
		n.failing("com.acme.Timeout", fmt.Sprintf("order %d is late", i), `{"order": 1}`)
	}
	n.takenIn()
	n.ingester = n.startReady("ingester")
	n.stuck()
	n.dead()
	n.redrive()
	ran := map[string]int{}
	for _, b := range blocks {
		switch b.language {
		case "sh":
			n.paste(b)
		case "sql":
			n.query(b)
		}
		ran[b.language]++
	}
	t.Logf("%v blocks were run", ran)
	n.api.wantRunning()
	n.ingester.wantRunning()
}

// night is a system under test with the problems that the runbook describes. It is called night because an operator on
// call finds such problems at night.
type night struct {
	*operators
	ingester *process
}

// paste runs a block in a shell that stops at the first error. The block must print something, unless it lists changes.
func (n *night) paste(b block) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", b.text)
	cmd.Env = append(os.Environ(), n.variables(b.text)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		n.t.Errorf("%s: %v\n%s\nprinted %.600s\nand %.600s", b.entry, err, b.text, out.String(), errs.String())
		return
	}
	if strings.TrimSpace(out.String()) == "" && !strings.Contains(b.text, "jq -r '.changes") {
		n.t.Errorf("%s: printed nothing, want output\n%s", b.entry, b.text)
	}
	n.t.Logf("%s:\n%.300s", b.entry, out.String())
}

// variables returns values for the variables in a code block of the runbook, such as ID. ID is the newest PENDING
// message. STUCK and REDRIVE are made for each block, because the block changes them.
func (n *night) variables(text string) []string {
	values := []string{"API=" + n.api.url, "INGESTER=" + n.ingester.url, "TOKEN=none", "TOPIC=" + n.source}
	for name, find := range map[string]func() string{"ID": n.pending, "STUCK": n.stuck, "REDRIVE": n.stopped, "GROUP": n.group} {
		if strings.Contains(text, "$"+name) {
			values = append(values, name+"="+find())
		}
	}
	return values
}

// pending returns the id of the newest PENDING message. Redrives begin with the oldest messages, so no redrive has
// claimed this one.
func (n *night) pending() (id string) {
	n.t.Helper()
	if err := n.db.Get(&id, `SELECT id FROM dlq.dlq_messages WHERE status = 'PENDING' ORDER BY created_at DESC, id DESC LIMIT 1`); err != nil {
		n.t.Fatalf("a pending message: %v", err)
	}
	return id
}

// dead creates a message that has used all of its attempts.
func (n *night) dead() {
	n.t.Helper()
	if _, err := n.db.Exec(`UPDATE dlq.dlq_messages SET status = 'DEAD', retry_count = 3, last_retry_at = now(),
		last_publish_error = 'no leader', last_publish_error_class = 'NETWORK' WHERE id = $1`, n.pending()); err != nil {
		n.t.Fatalf("a dead message: %v", err)
	}
}

func (n *night) group() (id string) {
	n.t.Helper()
	if err := n.db.Get(&id, `SELECT id FROM dlq.error_groups LIMIT 1`); err != nil {
		n.t.Fatalf("an error group: %v", err)
	}
	return id
}

// stuck creates a message whose attempt cannot be settled: the claim has expired, and the target topic of the attempt
// no longer exists.
func (n *night) stuck() string {
	n.t.Helper()
	id := n.pending()
	res, err := n.db.Exec(`UPDATE dlq.dlq_messages SET status = 'RETRYING', retry_count = 1, attempt_no = 1,
		claim_id = $2, claim_expires_at = now() - interval '1 hour', last_retry_at = now() - interval '1 hour',
		claim_topic_id = $3, claim_partition = 0, claim_end_offset = 0, unsettled = true WHERE id = $1`, id, uuid.New(), uuid.NewString())
	check.NoError(n.t, err)
	if changed, err := res.RowsAffected(); err != nil || changed != 1 {
		n.t.Fatalf("%d messages are in doubt now (%v), want one", changed, err)
	}
	return id
}

// redrive creates a long-running redrive.
func (n *night) redrive() string {
	n.t.Helper()
	order := fmt.Sprintf(`{"filter": {"topic": %q}, "canary": 1, "canary_wait": "1h", "rate": 0.001}`, n.source)
	return n.api.accepted("/api/v1/redrives", order, "Content-Type", "application/json")
}

// stopped creates a redrive that has stopped itself, and returns its id.
func (n *night) stopped() string {
	n.t.Helper()
	id := n.redrive()
	if _, err := n.db.Exec(`UPDATE dlq.redrives SET state = 'stopped', note = 'too many failed' WHERE id = $1`, id); err != nil {
		n.t.Fatalf("stop a redrive: %v", err)
	}
	return id
}

// query runs the SQL statements of a block as an operator would.
func (n *night) query(b block) {
	n.t.Helper()
	for statement := range strings.SplitSeq(b.text, ";\n") {
		if strings.TrimSpace(statement) == "" {
			continue
		}
		rows, err := n.db.QueryContext(n.t.Context(), statement)
		if err != nil {
			n.t.Errorf("%s: %v\n%s", b.entry, err, statement)
			continue
		}
		for rows.Next() { // reads all rows, because some statements fail only then
		}
		if err := rows.Err(); err != nil {
			n.t.Errorf("%s: %v\n%s", b.entry, err, statement)
		}
		_ = rows.Close()
	}
}
