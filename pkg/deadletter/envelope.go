package deadletter

import (
	"bytes"
	"cmp"
	"strings"

	"github.com/dlq-manager/dlq-manager/pkg/deadletter/internal/headername"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
)

// MaxEnvelope is the size in bytes of the largest value that is looked at as an envelope.
const MaxEnvelope = 1 << 20

// Fields that only an envelope has. fieldText is either the value or the text of the failure. fieldRun and fieldCondition
// are those of a report about a run of AWS Lambda, which names no topic but says itself whether the run failed.
const (
	fieldValue = fieldCount + iota
	fieldText
	fieldCode
	fieldTime
	fieldRun
	fieldCondition
)

// memberAliases are names of an envelope's members, in addition to aliases and in the same form. A name that ordinary
// objects have too has the rank plain or a higher one.
var memberAliases = withQualifiers(map[string]alias{
	"topic": {fieldTopic, plain}, "topicname": {fieldTopic, plain + 1}, "recordtopic": {fieldTopic, plain + 2}, "messagetopic": {fieldTopic, plain + 3},
	"partition": {fieldPartition, plain}, "offset": {fieldOffset, plain},
	"original": {fieldValue, plain}, "value": {fieldValue, plain + 1}, "payload": {fieldValue, plain + 2},
	"record": {fieldValue, plain + 3}, "event": {fieldValue, plain + 4}, "body": {fieldValue, plain + 5},
	"data": {fieldValue, plain + 6}, "content": {fieldValue, plain + 7}, "messagebody": {fieldValue, plain + 8},
	"messagevalue": {fieldValue, plain + 9}, "recordvalue": {fieldValue, plain + 10},
	"message": {fieldText, plain}, "msg": {fieldText, plain + 1},
	"err": {fieldMessage, 9}, "errmsg": {fieldMessage, 10}, "rejectionreason": {fieldMessage, 11}, "rejectreason": {fieldMessage, 12},
	"failedreason": {fieldMessage, 13}, "failreason": {fieldMessage, 14}, "exc": {fieldMessage, 15}, "excinfo": {fieldMessage, 16},
	"exctype": {fieldClass, 6}, "traceback": {fieldStack, 6},
	"attempt": {fieldAttempts, 6}, "attemptcount": {fieldAttempts, 7}, "attemptnumber": {fieldAttempts, 8},
	"errorcode": {fieldCode, 0}, "failurecode": {fieldCode, 1}, "exceptioncode": {fieldCode, 2},
	"failedat": {fieldTime, 0}, "failuretime": {fieldTime, 1}, "failuretimestamp": {fieldTime, 2}, "failedtimestamp": {fieldTime, 3},
	"errorat": {fieldTime, 4}, "errortime": {fieldTime, 5}, "errortimestamp": {fieldTime, 6}, "deadletteredat": {fieldTime, 7},
	"requestcontextfunctionarn": {fieldRun, 0}, "requestcontextcondition": {fieldCondition, 0},
})

const plain = 32

// withQualifiers adds names such as originalvalue and rawpayload, which say that the member is about the record that
// failed.
func withQualifiers(names map[string]alias) map[string]alias {
	for i, first := range []string{"original", "orig", "origin", "source", "src", "failed", "bad", "raw", "initial", "input", "consumed"} {
		for _, name := range []string{"value", "message", "payload", "record", "event", "body", "data", "content", "msg", "messagebody", "messagevalue", "recordvalue"} {
			names[first+name] = alias{fieldValue, uint8(i)}
		}
		if first != "raw" && first != "input" {
			for _, name := range []string{"topic", "topicname", "kafkatopic"} {
				names[first+name] = alias{fieldTopic, uint8(i)}
			}
		}
	}
	return names
}

var (
	// A word of failureWords and a tail, or a head and a word of failureEnds, name a member that describes a failure. The
	// heads in otherHeads make the name of a rule or a measure.
	failureWords = []string{"lasterror", "error", "lastexception", "exception", "failure", "stacktrace"}
	failureTails = headername.Set([]string{
		"", "s", "message", "msg", "text", "description", "class", "classname", "name", "fqcn", "code", "type", "kind", "stack", "stacktrace", "trace",
		"reason", "cause", "detail", "details", "info", "at", "time", "timestamp",
	})
	failureEnds = []string{"error", "errors", "exception", "exceptions"}
	otherHeads  = headername.Set([]string{"on", "if", "no", "has", "is", "allow", "ignore", "max", "standard", "marginof"})
	// memberPrefixes may stand before a name that is written without separators, and memberSuffixes after any name.
	memberPrefixes = []string{"deadletter", "dlq", "dlt", "kafka"}
	memberSuffixes = []string{"base64", "b64", "hex", "bytes", "json", "string", "text"}
	// wrappers are the objects in which some envelopes have a part of their members, or all of them.
	wrappers = headername.Set([]string{
		"meta", "metadata", "dlq", "dlqmeta", "dlqmetadata", "dlqinfo", "dlt", "deadletter", "deadletterinfo", "deadlettermetadata", "envelope",
		"original", "originalmessage", "originalrecord", "originalevent", "origin", "source", "sourcerecord", "failedmessage",
		"failedrecord", "context", "ctx", "kafka", "kafkametadata", "info", "headers", "header", "attributes", "properties", "record",
		"message", "payload", "details", "requestcontext",
	})
)

// Envelope returns the names of those members that make the value of a dead letter an envelope: a JSON object that
// contains the record that failed and describes the failure. It returns nil when the value looks like no envelope, or is
// not looked at because it is too large or the dead letter's headers name the original topic. The names are those in
// value, which may be the value of an edit; a name in a nested object follows that object's name and a point.
func (d *Decoder) Envelope(m *entity.Message, value []byte) []string {
	if len(value) > MaxEnvelope || m.Origin.Confidence == entity.FromHeader || d.headersNameTopic(m) {
		return nil
	}
	return envelopeMembers(value)
}

// headersNameTopic reports whether the headers of a stored message name its original topic, or another one that the
// mapping or an operator has replaced.
func (d *Decoder) headersNameTopic(m *entity.Message) bool {
	if len(m.Record.Headers) == 0 && !d.uber.Match(m.Source.Topic) {
		return false
	}
	c := d.decodingOf(m.Source.Topic, m.Record)
	c.exists = func(topic string) bool { return topic == m.OriginalTopic }
	c.hops = c.recognise(nil)
	_, found := c.headerPlace(m.Source.Timestamp)
	return found
}

// jsonSchemaPrefix is the length of the magic byte and the schema id before JSON text with a schema.
const jsonSchemaPrefix = 5

func envelopeMembers(value []byte) []string {
	if len(value) > jsonSchemaPrefix && value[0] == 0 && value[jsonSchemaPrefix] == '{' {
		value = value[jsonSchemaPrefix:]
	}
	var e envelope
	e.read("", value)
	return e.members()
}

// role is what a member says that makes an object an envelope.
type role uint8

const (
	topicRole role = iota
	plainTopicRole
	partitionRole
	offsetRole
	valueRole
	plainValueRole
	textRole
	failureRole
	furtherFailureRole // a second member with the role failureRole
	mentionRole        // an empty failure, or a member such as the number of attempts
	runRole
	conditionRole
	roles
)

// envelope contains the names of an object's members by their role; "" where there is no such member.
type envelope [roles]string

// members returns the names of the members that make an object an envelope; nil when it is none.
func (e *envelope) members() []string {
	if e[runRole] != "" && e[conditionRole] != "" {
		return []string{e[runRole], e[conditionRole]}
	}
	topic, value, failure := e[topicRole], cmp.Or(e[valueRole], e[plainValueRole]), e[failureRole]
	exact := saysOriginal(topic) && saysOriginal(e[valueRole])
	switch {
	case topic == "" && e[partitionRole] != "" && e[offsetRole] != "": // logs and pages of lists have some of these members too
		topic, value = e[plainTopicRole], e[valueRole]
	case value == "" && e[furtherFailureRole] != "": // otherwise the text could be the only description of a failure
		value = e[textRole]
	case exact && failure == "":
		failure = e[textRole]
	}
	if failure == "" && exact {
		failure = e[mentionRole]
	}
	if topic == "" || value == "" || failure == "" {
		return nil
	}
	return []string{topic, value, failure}
}

// saysOriginal reports whether a name says that the member is about the record that failed.
func saysOriginal(name string) bool { return strings.Contains(strings.ToLower(name), "orig") }

// note notes the name of a member with the role r; the first one counts.
func (e *envelope) note(r role, name string) {
	if r == failureRole && e[r] != "" && e[r] != name {
		r = furtherFailureRole
	}
	e[r] = cmp.Or(e[r], name)
}

// read notes the members of an object; outer is the name of the member whose value it is, "" for the whole text.
func (e *envelope) read(outer string, object []byte) {
	payload.Members(object, func(name, value []byte) {
		if len(name) > longestAlias {
			return
		}
		full := string(name)
		if outer != "" {
			full = outer + "." + full
		}
		a, ok := memberField(full)
		if outer == "" && value[0] == '{' && wrappers[foldMember(full)] && e.join(full, value, ok && a.field >= fieldValue) || !ok {
			return
		}
		if r := roleOf(a, value); r < roles {
			e.note(r, full)
		}
	})
}

// join adds the members of a nested object, unless it may be the value and names no topic. It returns true when the
// object names a topic, and so cannot be the value.
func (e *envelope) join(name string, object []byte, mayBeValue bool) bool {
	var inner envelope
	inner.read(name, object)
	named := inner[topicRole] != "" || inner[plainTopicRole] != ""
	if named || !mayBeValue {
		for r, name := range inner {
			e.note(role(r), name)
		}
	}
	return named
}

// roleOf returns the role of a member with a value; roles for none.
func roleOf(a alias, value []byte) role {
	common := a.rank >= plain
	is := func(yes bool, r, other role) role {
		if yes {
			return r
		}
		return other
	}
	switch a.field {
	case fieldTopic:
		topic := string(jsonString(a.field, value))
		if value[0] == '"' && entity.ValidTopic(topic) || !common && topic == "null" {
			return is(common, plainTopicRole, topicRole)
		}
	case fieldPartition:
		return partitionRole
	case fieldOffset:
		return offsetRole
	case fieldValue:
		return is(common, plainValueRole, valueRole)
	case fieldText:
		return is(value[0] == '{' || bytes.HasPrefix(value, []byte(`"{`)) && bytes.HasSuffix(value, []byte(`}"`)), plainValueRole, textRole)
	case fieldMessage, fieldClass, fieldStack:
		return is(says(value), failureRole, mentionRole)
	case fieldCode:
		return is(says(value) || value[0] >= '1' && value[0] <= '9', failureRole, mentionRole)
	case fieldAttempts, fieldTime:
		return mentionRole
	case fieldRun:
		return runRole
	case fieldCondition:
		return is(string(value) != `"Success"`, conditionRole, roles)
	case fieldTimestamp, fieldGroup:
	}
	return roles
}

// says reports whether a JSON value is a text, an object or a list that is not empty.
func says(value []byte) bool {
	inner := bytes.TrimSpace(value[1:])
	return strings.IndexByte(`"{[`, value[0]) >= 0 && len(inner) > 1
}

// memberField returns what a member says. Of a name with a point, the part before the point is a wrapper.
func memberField(name string) (alias, bool) {
	if a, ok := findMember(foldMember(name)); ok {
		return a, true
	}
	outer, inner, nested := strings.Cut(name, ".")
	if !nested || !wrappers[foldMember(outer)] {
		return alias{}, false
	}
	return findMember(foldMember(inner))
}

func foldMember(name string) string {
	var room [2 * longestAlias]byte
	return string(headername.Fold(room[:0], name))
}

func findMember(folded string) (alias, bool) {
	name := folded
	for _, cut := range memberSuffixes {
		name = strings.TrimSuffix(name, cut)
	}
	if a, ok := memberAlias(name); ok {
		return a, true
	}
	for _, cut := range memberPrefixes {
		if rest, ok := strings.CutPrefix(name, cut); ok {
			return memberAlias(rest)
		}
	}
	return alias{}, false
}

func memberAlias(name string) (alias, bool) {
	for _, names := range [...]map[string]alias{aliases, memberAliases} {
		if a, ok := names[name]; ok {
			return a, true
		}
	}
	for _, word := range failureWords {
		if tail, ok := strings.CutPrefix(name, word); ok && failureTails[tail] {
			return alias{fieldMessage, plain}, true
		}
	}
	for _, end := range failureEnds {
		if head, ok := strings.CutSuffix(name, end); ok && !otherHeads[head] {
			return alias{fieldMessage, plain}, true
		}
	}
	return alias{}, false
}
