package republisher

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

func to(topic string) func(*entity.Message) {
	return func(m *entity.Message) { m.OriginalTopic = topic }
}

func state(s entity.ValueState) func(*entity.Message) {
	return func(m *entity.Message) { m.Record.State = s }
}

// withoutSource turns a message into a dead letter that Kafka Streams wrote because a punctuator failed. Its headers do
// not name a record, because none was processed.
func withoutSource(value []byte) func(*entity.Message) {
	return func(m *entity.Message) {
		m.Record = entity.Record{Value: value, Size: int64(len(value)), Headers: []entity.Header{
			{Key: "__streams.errors.exception", Value: []byte("java.lang.IllegalStateException")},
			{Key: "__streams.errors.topic"},
			{Key: "__streams.errors.partition", Value: []byte("-1")},
			{Key: "__streams.errors.offset", Value: []byte("-1")},
		}}
	}
}

// The target of a redirect must pass the same checks as any other target, including the list of allowed topics, if
// there is one.
func TestPlanOfARedirect(t *testing.T) {
	t.Parallel()
	guessed := func(m *entity.Message) { m.Origin.Confidence = entity.FromName }
	cases := []struct {
		name   string
		change func(*entity.Message)
		target string
		edit   *entity.Edit
		allow  []string
		bulk   bool
		class  entity.ErrorClass // "" when the message is not refused
		sent   string            // topic that Plan chooses
	}{
		{"OfATopicThatDoesNotExist", to("gone"), orders, nil, nil, true, "", orders},
		{"WithoutAList", to("payments"), orders, nil, nil, true, "", orders},
		{"TargetOfTheList", to("gone"), orders, nil, []string{orders}, true, "", orders},
		{"TargetOutsideTheList", to("payments"), orders, nil, []string{"payments"}, true, entity.Unauthorized, orders},
		{"TargetThatDoesNotExist", to(orders), "gone", nil, nil, true, entity.UnknownTopic, "gone"},
		{"DeadLetterTopic", to(orders), deadLetter, nil, nil, true, entity.LoopRefused, deadLetter},
		{"InternalTopic", to(orders), "_internal", nil, nil, true, entity.Unauthorized, "_internal"},
		{"GuessedOriginInBulk", guessed, orders, nil, nil, true, entity.UnknownTopic, orders},
		{"GuessedOriginAlone", guessed, orders, nil, nil, false, "", orders},
		{"EditWithoutATopic", to("gone"), orders, &entity.Edit{SetValue: true}, nil, false, "", orders},
		{"EditOfTheOriginalTopic", to("gone"), orders, &entity.Edit{Topic: "gone"}, nil, false, "", orders},
		{"EditOfAnotherTopic", to("gone"), orders, &entity.Edit{Topic: fixed}, nil, false, entity.Unauthorized, fixed},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLogs()
			l.topics[fixed] = 4
			r := newRepublisher(t, l, func(cfg *Config) { cfg.RepublishAllow = c.allow })
			out := entity.Outgoing{Message: message(c.change), Redirect: c.target, Edit: c.edit}
			target := r.Plan(t.Context(), []entity.Outgoing{out}, c.bulk)[0]
			check.Equal(t, target.Topic, c.sent, "target topic")
			if c.class == "" {
				check.NoError(t, target.Err)
				return
			}
			refused := check.As[*entity.RefusedError](t, target.Err, "Plan")
			check.True(t, refused.Class == c.class && refused.Missing == (c.target == "gone"), "refused = %+v, want %s", refused, c.class)
		})
	}
}

// In the target of a redirect the key determines the partition, because the number of the original partition has no
// meaning in another topic.
func TestPlanPartitionOfARedirect(t *testing.T) {
	t.Parallel()
	l := newLogs()
	l.topics[fixed] = 2
	m := message(func(m *entity.Message) { m.Origin.Partition = new(int32(1)) })
	target := newRepublisher(t, l).Plan(t.Context(), []entity.Outgoing{{Message: m, Redirect: fixed}}, true)[0]
	check.Equal(t, target.Partition, broker.Murmur2Partition(m.Record.Key, 2), "partition")
}

func TestCheckTarget(t *testing.T) {
	t.Parallel()
	l := newLogs()
	r := newRepublisher(t, l)
	check.NoError(t, r.CheckTarget(t.Context(), orders))
	for topic, class := range map[string]entity.ErrorClass{
		"gone": entity.UnknownTopic, deadLetter: entity.LoopRefused, "_internal": entity.Unauthorized, "a b": entity.UnknownTopic,
	} {
		refused := check.As[*entity.RefusedError](t, r.CheckTarget(t.Context(), topic), topic)
		check.Equal(t, refused.Class, class, topic)
	}
	l.mute = broker.ErrUnavailable
	check.Is(t, r.CheckTarget(t.Context(), orders), entity.ErrUnavailable, "CheckTarget without an answer")
}

func TestPlanRefuses(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		change func(*entity.Message)
		allow  []string
		bulk   bool
		class  entity.ErrorClass // "" when the message is not refused
	}{
		{"NothingAgainstIt", to(orders), nil, true, ""},
		{"UnknownOrigin", to(""), nil, false, entity.UnknownTopic},
		{"ImpossibleName", to("a b"), nil, false, entity.UnknownTopic},
		{"TopicThatDoesNotExist", to("nowhere"), nil, false, entity.UnknownTopic},
		{"DeadLetterTopic", to(deadLetter), nil, false, entity.LoopRefused},
		{"DeadLetterTopicEvenWhenAllowed", to(deadLetter), []string{deadLetter}, false, entity.LoopRefused},
		{"InternalTopic", to("_internal"), nil, false, entity.Unauthorized},
		{"InternalTopicThatAPatternMerelyMatches", to("_internal"), []string{"*"}, false, entity.Unauthorized},
		{"InternalTopicByName", to("_internal"), []string{"_internal"}, false, ""},
		{"InternalTopicByExpression", to("_internal"), []string{"^_int.*$"}, false, ""},
		{"OutsideTheList", to(orders), []string{"payments", "users.*"}, false, entity.Unauthorized},
		{"InsideTheList", to(orders), []string{"payments", "ord*"}, false, ""},
		{"GuessedOriginInBulk", func(m *entity.Message) { m.Origin.Confidence = entity.FromName }, nil, true, entity.UnknownTopic},
		{"GuessedOriginAlone", func(m *entity.Message) { m.Origin.Confidence = entity.FromName }, nil, false, ""},
		{"RowWithoutAnything", state(entity.ValueMissing), nil, false, entity.BadRecord},
		{"NoSourceRecordWhateverItsOrigin", withoutSource(nil), nil, false, entity.BadRecord},
		{"NoSourceRecordInBulk", withoutSource(nil), nil, true, entity.BadRecord},
		{"NoSourceRecordAndUnknownOrigin", func(m *entity.Message) {
			withoutSource(nil)(m)
			m.OriginalTopic = ""
		}, nil, false, entity.BadRecord},
		{"NoSourceRecordButAValue", withoutSource([]byte("v")), nil, false, ""},
		{"OffsetsThatCannotBeRead", state(entity.ValueUnreadable), nil, false, entity.BadRecord},
		{"RowWithPayload", state(entity.ValueFromPayload), nil, false, ""},
		{"OverLimitStillThere", state(entity.ValueOverLimit), nil, false, ""},
		{"OverLimitGone", func(m *entity.Message) {
			m.Record.State, m.Source.Offset = entity.ValueOverLimit, 4
		}, nil, false, entity.BadRecord},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLogs()
			l.starts[broker.TopicPartition{Topic: deadLetter}] = 5
			r := newRepublisher(t, l, func(cfg *Config) { cfg.RepublishAllow = c.allow })
			err := r.Plan(t.Context(), plain(message(c.change)), c.bulk)[0].Err
			var refused *entity.RefusedError
			if c.class == "" {
				check.True(t, err == nil, "Plan error = %v, want nil", err)
			} else if !errors.As(err, &refused) || refused.Class != c.class || refused.Reason == "" {
				t.Errorf("Plan error = %#v, want refused with %s and a reason", err, c.class)
			}
		})
	}
}

func TestPlanUnavailable(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name      string
		harm      func(*logs)
		kind      error
		partition int32
	}{
		{"BrokersAway", func(l *logs) { l.down = broker.ErrUnavailable }, entity.ErrUnavailable, -1},
		{"NoLeader", func(l *logs) { l.errs[part(2)] = broker.ErrNoLeader }, entity.ErrUnavailable, 2},
		{"NotAuthorized", func(l *logs) { l.errs[part(2)] = broker.ErrUnauthorized }, entity.ErrConflict, 2},
		{"TopicGoneMeanwhile", func(l *logs) { l.errs[part(2)] = broker.ErrUnknownTopic }, entity.ErrConflict, 2},
		{"OtherPartitionsDoNotMatter", func(l *logs) { l.errs[part(1)] = broker.ErrNoLeader }, nil, 2},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLogs()
			c.harm(l)
			m := message(func(m *entity.Message) { m.Origin.Partition = ptr(int32(2)) })
			got := newRepublisher(t, l).Plan(t.Context(), plain(m), true)[0]
			check.True(t, errors.Is(got.Err, c.kind) && got.Partition == c.partition,
				"Plan = partition %d, %v, want %d, kind %v", got.Partition, got.Err, c.partition, c.kind)
		})
	}
}

func TestPlanWaitsForAnElection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLogs()
		l.errs[part(2)] = broker.ErrNotLeader
		go func() {
			<-time.After(500 * time.Millisecond) // fake time of the synctest bubble
			l.mu.Lock()
			defer l.mu.Unlock()
			delete(l.errs, part(2))
		}()
		m := message(func(m *entity.Message) { m.Origin.Partition = ptr(int32(2)) })
		check.Equal(t, newRepublisher(t, l).Plan(t.Context(), plain(m), true)[0].Err, nil, "Plan error")
	})
}

func part(n int32) broker.TopicPartition { return broker.TopicPartition{Topic: orders, Partition: n} }

func TestPlanPartition(t *testing.T) {
	t.Parallel()
	original := func(p int32) func(*entity.Message) { return func(m *entity.Message) { m.Origin.Partition = &p } }
	key := func(k []byte) func(*entity.Message) { return func(m *entity.Message) { m.Record.Key = k } }
	// The topic has four partitions. If the record's own partition is not used, a key's partition is the one that
	// Java's default partitioner chooses.
	cases := []struct {
		name   string
		change func(*entity.Message)
		want   int32
	}{
		{"OriginalWhereKnown", original(3), 3},
		{"ByKeyWhereTheOriginalIsGone", original(4), broker.Murmur2Partition([]byte("key"), 4)},
		{"ByKeyWhereUnknown", key([]byte("21")), broker.Murmur2Partition([]byte("21"), 4)},
		{"EmptyKeyIsAKey", key([]byte{}), broker.Murmur2Partition(nil, 4)},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			target := newRepublisher(t, newLogs()).Plan(t.Context(), plain(message(c.change)), true)[0]
			check.True(t, target.Err == nil && target.Partition == c.want,
				"Plan = %d, %v, want partition %d", target.Partition, target.Err, c.want)
		})
	}

	t.Run("NullKeysAreSpread", func(t *testing.T) {
		t.Parallel()
		messages := make([]entity.Message, 200)
		for i := range messages {
			messages[i] = message(key(nil))
		}
		used := map[int32]bool{}
		for _, target := range newRepublisher(t, newLogs()).Plan(t.Context(), plain(messages...), true) {
			used[target.Partition] = true
		}
		check.True(t, len(used) == 4, "partitions used = %v, want all 4", used)
	})

	t.Run("NewKeyDecides", func(t *testing.T) {
		t.Parallel()
		l := newLogs()
		r := newRepublisher(t, l, func(c *Config) { c.RepublishKey = KeyUUID })
		for range 20 {
			out := claimed(t, r, message(original(3)))
			r.Publish(t.Context(), out)
			log := l.records[part(out[0].Target.Partition)]
			sent := log[len(log)-1]
			check.Equal(t, out[0].Target.Partition, broker.Murmur2Partition(sent.Key, 4), "partition for key %s", sent.Key)
		}
	})
}

func TestPlanAsksOnce(t *testing.T) {
	t.Parallel()
	l := newLogs()
	l.records[part(1)] = []broker.Record{{Offset: 41}}
	messages := []entity.Message{
		message(func(m *entity.Message) { m.Origin.Partition = ptr(int32(1)) }),
		message(to("nowhere")),
		message(func(m *entity.Message) { m.Origin.Partition = ptr(int32(2)) }),
	}
	targets := newRepublisher(t, l).Plan(t.Context(), plain(messages...), true)
	check.True(t, targets[0].EndOffset == 42 && targets[1].Err != nil && targets[2].Partition == 2 && targets[2].EndOffset == 0,
		"Plan = %+v, want end 42, an error, partition 2 with end 0", targets)
	check.Equal(t, l.asked, 1, "requests for end offsets")
	got := newRepublisher(t, l).Plan(t.Context(), nil, true)
	check.True(t, len(got) == 0, "Plan of nothing = %v, want nothing", got)
}

func TestConfigValidate(t *testing.T) {
	t.Parallel()
	check.Equal(t, DefaultConfig().Validate(), nil, "DefaultConfig().Validate()")
	err := Config{RepublishKey: "none", RepublishAllow: []string{"or?ers", "^a("}}.Validate()
	for _, text := range []string{"kafka.republish_key", `kafka.republish_allow: "or?ers"`, `kafka.republish_allow: "^a("`, "kafka.republish_timeout"} {
		check.True(t, err != nil && strings.Contains(err.Error(), text), "Validate = %v, want a line with %s", err, text)
	}
}

// The partition in the headers is one of the topic that they name, and of no other topic that an operator has set.
func TestAnOperatorsTopicHasNoPartitionOfAnotherTopic(t *testing.T) {
	t.Parallel()
	named := entity.Header{Key: "source_topic", Value: []byte("payments")}
	number := entity.Header{Key: "source_partition", Value: []byte("0")}
	for name, tt := range map[string]struct {
		headers []entity.Header
		want    int32
	}{
		"OfAnotherTopic": {[]entity.Header{named, number}, broker.Murmur2Partition([]byte("key"), 2)},
		"OfNoTopic":      {[]entity.Header{number}, 0},
	} {
		m := message(func(m *entity.Message) {
			m.Origin.Confidence, m.Origin.Partition, m.Record.Headers = entity.FromOperator, new(int32(0)), tt.headers
		})
		check.Require(t, broker.Murmur2Partition([]byte("key"), 2) == 1, "the key has the same partition, so the test shows nothing")
		out := plain(m)[0]
		r := check.Must(New(DefaultConfig(), deadletter.Patterns{}, nil, nil))(t)
		check.Equal(t, r.partition(&out, []byte("key"), 2), tt.want, "%s: partition", name)
	}
}
