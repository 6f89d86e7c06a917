package entity_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// chart is the complete state machine, written a second time on purpose: a change of the table of transitions must be
// made here and in the document too.
const chart = `
	PENDING  --> RETRYING
	PENDING  --> DEAD
	RETRYING --> RESOLVED
	RETRYING --> PENDING
	RETRYING --> DEAD
	DEAD     --> PENDING
`

var arrow = regexp.MustCompile(`(?m)^\s*(\w+|\[\*\])\s*-->\s*(\w+|\[\*\])`)

// arrows returns the arrows of a chart in the form "FROM --> TO", sorted.
func arrows(text string) []string {
	var found []string
	for _, m := range arrow.FindAllStringSubmatch(text, -1) {
		found = append(found, m[1]+" --> "+m[2])
	}
	slices.Sort(found)
	return found
}

// tableArrows returns the arrows of the state machine: one for each pair of statuses for which CanMoveTo returns true.
func tableArrows() []string {
	var found []string
	for _, from := range entity.Statuses() {
		for _, to := range entity.Statuses() {
			if from.CanMoveTo(to) {
				found = append(found, fmt.Sprintf("%s --> %s", from, to))
			}
		}
	}
	slices.Sort(found)
	return found
}

func TestStatus(t *testing.T) {
	t.Parallel()

	t.Run("TransitionTableIsTheChart", func(t *testing.T) {
		t.Parallel()
		if got, want := tableArrows(), arrows(chart); !slices.Equal(got, want) {
			t.Errorf("transitions = %q, want %q", got, want)
		}
	})

	t.Run("UnknownStatusHasNoArrows", func(t *testing.T) {
		t.Parallel()
		for _, s := range entity.Statuses() {
			if entity.Status("LOST").CanMoveTo(s) || s.CanMoveTo("LOST") || s.CanMoveTo("") {
				t.Errorf("an arrow between %s and an unknown status exists, want none", s)
			}
		}
	})

	t.Run("StatusesAreTheFour", func(t *testing.T) {
		t.Parallel()
		want := []entity.Status{entity.Pending, entity.Retrying, entity.Resolved, entity.Dead}
		if got := entity.Statuses(); !slices.Equal(got, want) {
			t.Errorf("Statuses() = %q, want %q", got, want)
		}
	})

	t.Run("StatusesIsTheCallersOwn", func(t *testing.T) {
		t.Parallel()
		entity.Statuses()[0] = entity.Dead
		if got := entity.Statuses()[0]; got != entity.Pending {
			t.Errorf("Statuses()[0] = %s after a caller wrote into an earlier answer, want PENDING", got)
		}
	})

	t.Run("PrintsAsStored", func(t *testing.T) {
		t.Parallel()
		for status, want := range map[entity.Status]string{
			entity.Pending: "PENDING", entity.Retrying: "RETRYING", entity.Resolved: "RESOLVED", entity.Dead: "DEAD",
		} {
			if got := status.String(); got != want {
				t.Errorf("String() = %q, want %q", got, want)
			}
		}
	})

	t.Run("FinalAreResolvedAndDead", func(t *testing.T) {
		t.Parallel()
		for status, want := range map[entity.Status]bool{
			entity.Pending: false, entity.Retrying: false, entity.Resolved: true, entity.Dead: true, "": false,
		} {
			if got := status.Final(); got != want {
				t.Errorf("%q.Final() = %v, want %v", status, got, want)
			}
		}
	})
}

func TestParseStatus(t *testing.T) {
	t.Parallel()

	t.Run("ReadsWhatStringPrints", func(t *testing.T) {
		t.Parallel()
		for _, want := range entity.Statuses() {
			got, err := entity.ParseStatus(want.String())
			if err != nil || got != want {
				t.Errorf("ParseStatus(%q) = %q, %v, want %q", want, got, err, want)
			}
		}
	})

	for _, text := range []string{"", "pending", "Pending", " PENDING", "PENDING ", "FAILED", "DEAD\x00", "\xff"} {
		t.Run(fmt.Sprintf("UnknownIsAnErrorNamingIt/%q", text), func(t *testing.T) {
			t.Parallel()
			got, err := entity.ParseStatus(text)
			var field *entity.FieldError
			if !errors.As(err, &field) {
				t.Fatalf("ParseStatus(%q) = %q, %v, want a FieldError", text, got, err)
			}
			if got != "" || field.Field != "status" || !strings.Contains(field.Reason, fmt.Sprintf("%q", text)) {
				t.Errorf("ParseStatus(%q) = %q, %q, want no status and an error about status naming it", text, got, err)
			}
		})
	}
}
