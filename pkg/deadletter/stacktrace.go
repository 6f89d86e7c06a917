package deadletter

import (
	"github.com/dlq-manager/dlq-manager/pkg/deadletter/internal/headervalue"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// StackTrace returns the stack trace that Decode reads from the same record of the same topic. It does less work than
// Decode, which matters because lists show the stack trace of every message. It accepts the same records as Decode, and
// keeps no reference to rec.
func (d *Decoder) StackTrace(topic string, rec entity.Record) string {
	if !d.mayHaveStack(rec.Headers) {
		return ""
	}
	var room [4]*dialect
	c := d.decodingOf(topic, rec)
	c.exists = func(string) bool { return false }
	if c.hops = c.recognise(room[:0]); len(c.hops) == 0 {
		return ""
	}
	latest := c.hops[0]
	if latest.configured || latest.lacks(fieldMessage) || latest.refineFailure != nil {
		return c.failure().StackTrace // another dialect, or a hook of this one, may decide about the stack trace
	}
	var f failure
	return headervalue.Text(f.pick(latest, c.h, 0, fieldStack, latest.stacks), MaxStackTrace)
}

// mayHaveStack returns false when no dialect reads a stack trace from any of the record's headers.
func (d *Decoder) mayHaveStack(h headers) bool {
	for i := range h {
		if _, ok := d.stacks[h[i].Key]; ok {
			return true
		}
	}
	for i := range h {
		if a, ok := lookUp(h[i].Key); ok && a.field == fieldStack {
			return true
		}
	}
	return false
}

// stackWords returns the names of the headers from which a dialect reads a stack trace.
func stackWords(dialects []*dialect) map[string]struct{} {
	words := make(map[string]struct{})
	for _, d := range dialects {
		for _, word := range d.stacks {
			words[word] = struct{}{}
		}
	}
	return words
}
