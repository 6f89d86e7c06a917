package deadletter

import "github.com/dlq-manager/dlq-manager/pkg/deadletter/internal/headername"

// genericName is the name of the dialect for headers that match no other dialect, but whose names say what they
// contain. Producers without a framework write such headers by hand, so other comments call them hand-written headers.
const genericName = "generic"

// field is one of the values that are read from headers.
type field uint8

const (
	fieldTopic field = iota
	fieldPartition
	fieldOffset
	fieldTimestamp
	fieldClass
	fieldMessage
	fieldStack
	fieldGroup
	fieldAttempts
	fieldCount
)

// alias is the meaning of a header's name after headername.Fold. When a record has several aliases of a field, the one
// with the lowest rank is used, because its name is the most precise.
type alias struct {
	field field
	rank  uint8
}

// aliases are names of headers as headername.Fold returns them: in lower case, without separators, and without leading
// words of headername.Prefixes.
var aliases = map[string]alias{
	"originaltopic": {fieldTopic, 0}, "origintopic": {fieldTopic, 1}, "sourcetopic": {fieldTopic, 2},
	"originalpartition": {fieldPartition, 0}, "originpartition": {fieldPartition, 1}, "sourcepartition": {fieldPartition, 2},
	"originaloffset": {fieldOffset, 0}, "originoffset": {fieldOffset, 1}, "sourceoffset": {fieldOffset, 2},
	"originaltimestamp": {fieldTimestamp, 0}, "origintimestamp": {fieldTimestamp, 1}, "sourcetimestamp": {fieldTimestamp, 2},

	"errormessage": {fieldMessage, 0}, "exceptionmessage": {fieldMessage, 1}, "lasterrormessage": {fieldMessage, 2},
	"failurereason": {fieldMessage, 3}, "errorreason": {fieldMessage, 4}, "lasterror": {fieldMessage, 5},
	"error": {fieldMessage, 6}, "reason": {fieldMessage, 7}, "exception": {fieldMessage, 8},

	"errorclass": {fieldClass, 0}, "exceptionclass": {fieldClass, 1}, "exceptionfqcn": {fieldClass, 2},
	"exceptionclassname": {fieldClass, 3}, "errortype": {fieldClass, 4}, "exceptiontype": {fieldClass, 5},

	"stacktrace": {fieldStack, 0}, "errorstacktrace": {fieldStack, 1}, "exceptionstacktrace": {fieldStack, 2},
	"errorstack": {fieldStack, 3}, "exceptionstack": {fieldStack, 4}, "stack": {fieldStack, 5},

	"consumergroup": {fieldGroup, 0}, "consumergroupid": {fieldGroup, 1}, "originalconsumergroup": {fieldGroup, 2},
	"sourceconsumergroup": {fieldGroup, 3}, "groupid": {fieldGroup, 4},

	"retrycount": {fieldAttempts, 0}, "retryattempts": {fieldAttempts, 1}, "retryattempt": {fieldAttempts, 2},
	"attempts": {fieldAttempts, 3}, "retries": {fieldAttempts, 4}, "retryattemptcount": {fieldAttempts, 5},
}

// generic makes a dialect from those of the record's headers whose names are aliases. It returns nil when no name is an
// alias, or only the name "error".
func generic(h headers) *dialect {
	var keys [fieldCount]string
	var ranks [fieldCount]uint8
	found := false
	for i := range h {
		if ours(h[i].Key) {
			continue
		}
		a, ok := lookUp(h[i].Key)
		if !ok || keys[a.field] != "" && ranks[a.field] <= a.rank {
			continue
		}
		keys[a.field], ranks[a.field] = h[i].Key, a.rank
		found = found || h[i].Key != "error"
	}
	if !found {
		return nil
	}
	return &dialect{
		name:  genericName,
		topic: keys[fieldTopic], partition: keys[fieldPartition], offset: keys[fieldOffset], timestamp: keys[fieldTimestamp],
		classes: some(keys[fieldClass]), messages: some(keys[fieldMessage]), stacks: some(keys[fieldStack]),
		groups: some(keys[fieldGroup]), attempts: some(keys[fieldAttempts]),
	}
}

func some(key string) []string {
	if key == "" {
		return nil
	}
	return []string{key}
}

// longestAlias is the maximum length of a name that is folded; longer names are no aliases.
const longestAlias = 40

func lookUp(key string) (alias, bool) {
	if len(key) > longestAlias {
		return alias{}, false
	}
	var buf [longestAlias]byte
	a, ok := aliases[string(headername.Fold(buf[:0], key))]
	return a, ok
}
