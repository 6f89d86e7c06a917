package deadletter

import (
	"slices"
	"strings"

	"github.com/dlq-manager/dlq-manager/pkg/deadletter/internal/headervalue"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Maximum lengths of the derived texts in bytes. A longer text is cut between two characters; the header keeps the full
// text.
const (
	MaxErrorMessage  = 64 << 10
	MaxErrorClass    = 1 << 10
	MaxConsumerGroup = 1 << 10
	MaxStackTrace    = 256 << 10
)

// sources are the indexes of the headers from which the fields were read, counted from 1; 0 for a field that was read
// from no header.
type sources [fieldCount]int32

// failure contains what the headers of one failure (hop) report about it. message is "" when they report no error
// message.
type failure struct {
	entity.Failure
	message string
	at      sources
}

// failure returns what the dialect's headers report about the record's latest failure.
func (d *dialect) failure(h headers) failure {
	from, to := d.latestBlock(h)
	var f failure
	f.Dialect = d.name
	f.Class = headervalue.Text(f.pick(d, h[from:to], from, fieldClass, d.causes), MaxErrorClass)
	if f.Class == "" {
		f.Class = headervalue.Text(f.pick(d, h, 0, fieldClass, d.classes), MaxErrorClass)
	}
	f.message = headervalue.Text(f.pick(d, h, 0, fieldMessage, d.messages), MaxErrorMessage)
	f.StackTrace = headervalue.Text(f.pick(d, h, 0, fieldStack, d.stacks), MaxStackTrace)
	if d.rootInStack {
		f = f.rootCause()
	}
	f.ConsumerGroup = headervalue.Text(f.pick(d, h[from:to], from, fieldGroup, d.groups), MaxConsumerGroup)
	f.Attempts = headervalue.Attempts(f.pick(d, h, 0, fieldAttempts, d.attempts))
	if d.refineFailure != nil {
		return d.refineFailure(h, f)
	}
	return f
}

// pick tries keys in order, with the header of the latest failure in part, and returns the first value that is not
// empty. It stores the index of that header in the whole list of headers, where the list part begins at from.
func (f *failure) pick(d *dialect, part headers, from int, of field, keys []string) []byte {
	for _, key := range keys {
		i := d.latestIndex(part, key)
		if i < 0 {
			continue
		}
		if value := d.value(of, part[i].Value); len(value) > 0 {
			f.at[of] = int32(from + i + 1)
			return value
		}
	}
	return nil
}

// failure returns the record's latest failure. When its dialect is a user's dialect that has no header for a field, the
// field comes from the dialect of the failure before. For other missing fields see supplement. If the error message is
// still missing, it is the value of the header "error".
func (c *decoding) failure() failure {
	var f failure
	if len(c.hops) > 0 {
		latest := c.hops[0]
		f = latest.failure(c.h)
		c.noteFailure(f, latest, fieldClass, fieldMessage, fieldStack, fieldGroup, fieldAttempts)
		f = c.supplement(f, latest)
	}
	if f.message == "" {
		i := c.h.lastIndex("error")
		if i >= 0 {
			f.message = headervalue.Text(c.h[i].Value, MaxErrorMessage)
			c.trail[fieldMessage] = trace{at: int32(i + 1)}
		}
	}
	return f
}

// supplement adds to f fields that it reads with other dialects, because the dialect latest has no header for them. If
// latest reads no header for the error message, its producer writes nothing about the failure, so the failure is read
// from headers that belong to no framework (the generic dialect).
func (c *decoding) supplement(f failure, latest *dialect) failure {
	if latest.configured && len(c.hops) > 1 {
		f = c.borrow(f, latest, c.hops[1], fieldClass, fieldMessage, fieldStack, fieldGroup, fieldAttempts)
	}
	if latest.lacks(fieldMessage) && f.message == "" && latest.name != genericName {
		if d := generic(c.h); d != nil {
			f = c.borrow(f, latest, d, fieldClass, fieldMessage, fieldStack)
		}
	}
	return f
}

// borrow adds to f those of the given fields for which the dialect latest found no value, but the dialect other did. If
// latest is a user's dialect, borrow adds only fields for which latest has no header.
func (c *decoding) borrow(f failure, latest, other *dialect, fields ...field) failure {
	from := other.failure(c.h)
	takes := func(of field) bool {
		if from.at[of] == 0 || f.at[of] > 0 || latest.configured && !latest.lacks(of) || !slices.Contains(fields, of) {
			return false
		}
		c.noteFailure(from, other, of)
		return true
	}
	if takes(fieldClass) {
		f.Class = from.Class
	}
	if takes(fieldMessage) {
		f.message = from.message
	}
	if takes(fieldStack) {
		f.StackTrace = from.StackTrace
	}
	if takes(fieldGroup) {
		f.ConsumerGroup = from.ConsumerGroup
	}
	if takes(fieldAttempts) {
		f.Attempts = from.Attempts
	}
	return f
}

func (c *decoding) noteFailure(f failure, d *dialect, fields ...field) {
	for _, of := range fields {
		if f.at[of] > 0 {
			c.trail[of] = trace{dialect: d, at: f.at[of]}
		}
	}
}

// rootCause returns f with the class and the message of the last cause in a Java stack trace. It ignores causes in
// indented lines, because they belong to suppressed exceptions.
func (f failure) rootCause() failure {
	const causedBy = "\nCaused by: "
	i := strings.LastIndex(f.StackTrace, causedBy)
	if i < 0 {
		return f
	}
	line, _, _ := strings.Cut(f.StackTrace[i+len(causedBy):], "\n")
	class, message, _ := strings.Cut(strings.TrimRight(line, "\r"), ": ")
	if class == "" || len(class) > MaxErrorClass || strings.ContainsAny(class, " \t:") {
		return f
	}
	f.Class, f.at[fieldClass] = class, f.at[fieldStack]
	if message != "" {
		f.message, f.at[fieldMessage] = headervalue.Text([]byte(message), MaxErrorMessage), f.at[fieldStack]
	}
	return f
}
