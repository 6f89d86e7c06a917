package entity_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// update makes the test write the charts into the document instead of comparing them: go test ./pkg/entity -run
// TestDocument -update.
var update = flag.Bool("update", false, "print the charts into docs/state-machine.md")

const document = "../../docs/state-machine.md"

// drawing is one state machine as the document shows it. Its arrows come from the table of the program; the labels of
// the arrows are in this test.
type drawing struct {
	states []string
	moves  func(from, to string) bool
	starts map[string]string // label of the arrow from the start to each state
	ends   map[string]string
	words  map[string]string // labels of all other arrows, by arrows in the form "FROM --> TO"
}

func messageDrawing() drawing {
	d := drawing{
		moves: func(from, to string) bool { return entity.Status(from).CanMoveTo(entity.Status(to)) },
		starts: map[string]string{
			"PENDING": "ingest",
			"DEAD":    "ingest, its lineage has no attempts left",
		},
		ends: map[string]string{"RESOLVED": "archive", "DEAD": "archive"},
		words: map[string]string{
			"PENDING --> RETRYING":  "claim, one attempt more",
			"PENDING --> DEAD":      "by hand",
			"RETRYING --> RESOLVED": "acknowledged",
			"RETRYING --> PENDING":  "failed with attempts left, refused, given back, or rescued",
			"RETRYING --> DEAD":     "attempts used up, record never acceptable, tenth rescue in a row, or by hand once nobody can settle it",
			"DEAD --> PENDING":      "requeue by hand, attempts back to 0",
		},
	}
	for _, s := range entity.Statuses() {
		d.states = append(d.states, string(s))
	}
	return d
}

func redriveDrawing() drawing {
	d := drawing{
		moves: func(from, to string) bool { return entity.RedriveState(from).CanMoveTo(entity.RedriveState(to)) },
		starts: map[string]string{
			"canary":   "made, with a canary",
			"running":  "made",
			"finished": "made, with nothing to do",
		},
		ends: map[string]string{"cancelled": "", "finished": ""},
		words: map[string]string{
			"canary --> running":    "its canary came to a good end, or continued all the same",
			"canary --> paused":     "by hand",
			"canary --> stopped":    "its canary failed or came back",
			"canary --> cancelled":  "by hand",
			"canary --> finished":   "the canary was all there is",
			"running --> paused":    "by hand",
			"running --> stopped":   "too much failed or came back",
			"running --> cancelled": "by hand",
			"running --> finished":  "every message has an answer",
			"paused --> canary":     "resumed",
			"paused --> running":    "resumed",
			"paused --> cancelled":  "by hand",
			"stopped --> running":   "resumed all the same",
			"stopped --> cancelled": "by hand",
		},
	}
	for _, s := range entity.RedriveStates() {
		d.states = append(d.states, string(s))
	}
	return d
}

// print draws the chart. The test fails when an arrow has no label, because then the document would not explain a
// change that the table allows.
func (d drawing) print(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	line := func(from, to, words string) {
		if words != "" {
			words = " : " + words
		}
		fmt.Fprintf(&b, "    %s --> %s%s\n", from, to, words)
	}
	b.WriteString("stateDiagram-v2\n")
	for _, s := range d.states {
		if words, ok := d.starts[s]; ok {
			line("[*]", s, words)
		}
	}
	for _, from := range d.states {
		for _, to := range d.states {
			if !d.moves(from, to) {
				continue
			}
			words, ok := d.words[from+" --> "+to]
			if !ok {
				t.Errorf("the table has %s --> %s, and nothing explains it", from, to)
			}
			line(from, to, words)
		}
	}
	for _, s := range d.states {
		if words, ok := d.ends[s]; ok {
			line(s, "[*]", words)
		}
	}
	return b.String()
}

func TestDocument(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(document)
	check.NoError(t, err)
	text := string(content)
	for i, d := range []drawing{messageDrawing(), redriveDrawing()} {
		charts := strings.Split(text, "```mermaid\n")
		if len(charts) != 3 {
			t.Fatalf("%s has %d charts, want 2", document, len(charts)-1)
		}
		shown, rest, _ := strings.Cut(charts[i+1], "```")
		want := d.print(t)
		if shown != want && !*update {
			t.Errorf("chart %d is\n%s\nwant, as the table has it,\n%s", i+1, shown, want)
		}
		charts[i+1] = want + "```" + rest
		text = strings.Join(charts, "```mermaid\n")
	}
	if *update {
		check.NoError(t, os.WriteFile(document, []byte(text), 0o600))
	}
	for _, s := range slices.Concat(messageDrawing().states, redriveDrawing().states) {
		if !strings.Contains(text, "\n### "+s+"\n\n") {
			t.Errorf("%s has no paragraph headed %q", document, s)
		}
	}
}
