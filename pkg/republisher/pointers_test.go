package republisher

import (
	"errors"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// A pointer is followed only from the dead-letter topics that the configuration lists, and never if its record is in an
// internal topic, or in a topic that republish_allow does not allow. This holds for showing the record, and for sending
// it in a retry or a redrive.
func TestPointersAreFollowedWhereTheConfigurationSaysSo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pointers []string
		allow    []string
		topic    string
		harm     func(*logs)
		refused  string // expected part of the reason for which the pointer is refused; "": the pointer is followed
	}{
		"Listed":                {pointers: []string{"share.*", "orders.dlq.v1"}, topic: orders},
		"ListedByAPattern":      {pointers: []string{"*.dlq.v1"}, topic: orders},
		"NotListed":             {pointers: []string{"payments.dlq.v1"}, topic: orders, refused: "kafka.pointer_topics"},
		"NoneIsListed":          {topic: orders, refused: "kafka.pointer_topics"},
		"ConsumerOffsets":       {pointers: []string{"*"}, topic: "__consumer_offsets", refused: "internal"},
		"SchemasThoughAllowed":  {pointers: []string{"*"}, allow: []string{"_schemas", "orders"}, topic: "_schemas", refused: "internal"},
		"KafkaSaysItIsInternal": {pointers: []string{"*"}, topic: orders, harm: func(l *logs) { l.internal = orders }, refused: "internal"},
		"OutsideTheAllowedOnes": {pointers: []string{"*"}, allow: []string{"payments"}, topic: orders, refused: "republish_allow"},
		"AmongTheAllowedOnes":   {pointers: []string{"*"}, allow: []string{"orders"}, topic: orders},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLogs()
			l.topics[c.topic] = 3
			l.records[broker.TopicPartition{Topic: c.topic, Partition: 2}] = []broker.Record{original}
			if c.harm != nil {
				c.harm(l)
			}
			r := newRepublisher(t, l, func(cfg *Config) { cfg.RepublishAllow = c.allow })
			r.pointers = deadletter.Patterns{}
			if len(c.pointers) > 0 {
				patterns := check.Must(deadletter.ParsePatterns(c.pointers...))(t)
				WithPointers(patterns)(r)
			}
			m := message(to(c.topic), pointer(7))
			record, err := r.Fetch(t.Context(), m)
			wantPointer(t, "Fetch", err, c.refused)
			check.True(t, (string(record.Value) == "original") == (c.refused == ""),
				"Fetch = %q, want the original where the pointer is followed", record.Value)
			for _, bulk := range []bool{false, true} {
				err := r.Plan(t.Context(), plain(m), bulk)[0].Err
				if c.topic != orders && err != nil { // Plan has refused the target topic before it looked at the pointer
					continue
				}
				wantPointer(t, "Plan", err, c.refused)
			}
		})
	}
}

// wantPointer checks that a pointer was refused for the reason; if the reason is "", that there is no error.
func wantPointer(t *testing.T, what string, err error, reason string) {
	t.Helper()
	var refused *entity.RefusedError
	switch {
	case reason == "" && err != nil:
		t.Errorf("%s: %v, want the pointer followed", what, err)
	case reason == "":
	case !errors.As(err, &refused):
		t.Errorf("%s: %v, want it refused because of %s", what, err, reason)
	case !strings.Contains(refused.Reason, reason):
		t.Errorf("%s is refused by %s: %s, want the reason to name %s", what, refused.Class, refused.Reason, reason)
	}
}

// Plan accepts a pointer that must not be followed if an edit sets the value, because the edit does not need the
// record.
func TestAnEditOfAPointerThatIsNotFollowedIsSent(t *testing.T) {
	t.Parallel()
	r := newRepublisher(t, newLogs())
	r.pointers = deadletter.Patterns{}
	out := edited(message(pointer(7)), entity.Edit{SetValue: true, Value: []byte("new")})
	check.Equal(t, r.Plan(t.Context(), []entity.Outgoing{out}, false)[0].Err, nil, "Plan of an edit")
}

// A pointer is not sent while its record waits to be read, or when the record is gone. The error says why, and
// concerns only this message, not its topic.
func TestPointersOfShareGroups(t *testing.T) {
	t.Parallel()
	l := newLogs()
	l.records[part(2)] = []broker.Record{original}
	r := newRepublisher(t, l)
	m := message(pointer(7))
	fetch := func(state entity.Completion) error {
		m.Share = &entity.ShareRecord{State: state, Reason: "retention removed it"}
		_, err := r.Fetch(t.Context(), m)
		return err
	}
	for what, err := range map[string]error{"Fetch": fetch(entity.CompletionWaiting), "Plan": r.Plan(t.Context(), plain(m), false)[0].Err} {
		wantPointer(t, what, err, "not stored yet")
		var refused *entity.RefusedError
		check.True(t, errors.As(err, &refused) && refused.Class.OfMessage(), "%s: %v is not an error of the message alone", what, err)
	}
	wantPointer(t, "Fetch", fetch(entity.SourceGone), "retention removed it")
	wantPointer(t, "Plan", r.Plan(t.Context(), plain(m), true)[0].Err, "retention removed it")
	// in this state Fetch reads the record itself; its callers check whether the user may see the topic
	check.NoError(t, fetch(entity.CompletionRefused))
}

// A dead letter that contains a copy of the record's key and value is not sent while the record's headers wait to be
// read. If the headers cannot be read, the dead letter is sent without them.
func TestCopiedDeadLetterWaitsForItsHeaders(t *testing.T) {
	t.Parallel()
	r := newRepublisher(t, newLogs())
	m := message()
	m.Record.Headers = []entity.Header{{Key: "__dlq.errors.topic", Value: []byte(orders)}}
	m.Share = &entity.ShareRecord{State: entity.CompletionWaiting}
	wantPointer(t, "Plan", r.Plan(t.Context(), plain(m), true)[0].Err, "not stored yet")
	m.Share.State = entity.CompletionRefused
	check.NoError(t, r.Plan(t.Context(), plain(m), true)[0].Err)
}
