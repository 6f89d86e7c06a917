package republisher

import (
	"errors"
	"reflect"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

const fixed = "orders.fixed"

// edited returns a message with an edit.
func edited(m entity.Message, e entity.Edit) entity.Outgoing {
	return entity.Outgoing{Message: m, Edit: &e}
}

func TestPlanOfAnEdit(t *testing.T) {
	t.Parallel()
	guessed := func(m *entity.Message) { m.Origin.Confidence = entity.FromName }
	gone := func(m *entity.Message) { m.Record.State, m.Source.Offset = entity.ValueOverLimit, 4 }
	value := entity.Edit{SetValue: true, Value: []byte("new")}
	away := entity.Edit{Topic: fixed}
	cases := []struct {
		name   string
		change func(*entity.Message)
		edit   entity.Edit
		allow  []string
		class  entity.ErrorClass // "" when the message is not refused
	}{
		{"OwnTopicNeedsNoList", to(orders), value, nil, ""},
		{"OwnTopicByNameNeedsNoList", to(orders), entity.Edit{Topic: orders}, nil, ""},
		{"AnotherTopicWithoutAListIsRefused", to(orders), away, nil, entity.Unauthorized},
		{"AnotherTopicOutsideTheListIsRefused", to(orders), away, []string{"orders"}, entity.Unauthorized},
		{"AnotherTopicOfTheList", to(orders), away, []string{"orders.*"}, ""},
		{"OriginalTopicNeedNotBeInTheListThen", to("payments"), away, []string{"orders.*"}, ""},
		{"UnknownOriginGoesWhereTheListAllows", to(""), away, []string{"orders.*"}, ""},
		{"UnknownOriginWithoutATopicIsRefused", to(""), value, []string{"orders.*"}, entity.UnknownTopic},
		{"GuessedOrigin", guessed, away, []string{"orders.*"}, ""},
		{"DeadLetterTopicEvenWhenAllowed", to(orders), entity.Edit{Topic: deadLetter}, []string{deadLetter}, entity.LoopRefused},
		{"InternalTopicThatAPatternMerelyMatches", to(orders), entity.Edit{Topic: "_internal"}, []string{"*"}, entity.Unauthorized},
		{"TopicThatDoesNotExist", to(orders), entity.Edit{Topic: "nowhere"}, []string{"*"}, entity.UnknownTopic},
		{"ImpossibleName", to(orders), entity.Edit{Topic: "a b"}, []string{"*"}, entity.UnknownTopic},
		{"ValueInPlaceOfNone", state(entity.ValueMissing), value, nil, ""},
		{"ValueInPlaceOfOneThatIsGone", gone, value, nil, ""},
		{"ValueInPlaceOfAPointers", pointer(9), value, nil, ""},
		{"ValueInPlaceOfOffsetsThatCannotBeRead", state(entity.ValueUnreadable), value, nil, entity.BadRecord},
		{"KeyInPlaceOfNoValueHelpsNobody", state(entity.ValueMissing), entity.Edit{SetKey: true}, nil, entity.BadRecord},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLogs()
			l.topics[fixed] = 4
			l.starts[broker.TopicPartition{Topic: deadLetter}] = 5
			r := newRepublisher(t, l, func(cfg *Config) { cfg.RepublishAllow = c.allow })
			target := r.Plan(t.Context(), []entity.Outgoing{edited(message(c.change), c.edit)}, false)[0]
			var refused *entity.RefusedError
			if c.class == "" {
				check.True(t, target.Err == nil && (c.edit.Topic == "" || target.Topic == c.edit.Topic),
					"Plan = topic %q, %v, want %q and no error", target.Topic, target.Err, c.edit.Topic)
			} else if !errors.As(target.Err, &refused) || refused.Class != c.class || refused.Reason == "" {
				t.Errorf("Plan error = %#v, want refused with %s and a reason", target.Err, c.class)
			}
		})
	}
}

func TestPlanPartitionOfAnEdit(t *testing.T) {
	t.Parallel()
	key := []byte("another key")
	cases := []struct {
		name string
		edit entity.Edit
		want int32
	}{
		{"ValueAloneStaysInItsPartition", entity.Edit{SetValue: true}, 3},
		{"NewKeyGoesWhereItsConsumersLook", entity.Edit{SetKey: true, Key: key}, broker.Murmur2Partition(key, 4)},
		{"InAnotherTopicTheKeyDecides", entity.Edit{Topic: fixed}, broker.Murmur2Partition([]byte("key"), 2)},
		{"TheSameTopicIsNoOther", entity.Edit{Topic: orders}, 3},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLogs()
			l.topics[fixed] = 2
			r := newRepublisher(t, l, func(cfg *Config) { cfg.RepublishAllow = []string{"orders*", orders} })
			m := message(func(m *entity.Message) { m.Origin.Partition = ptr(int32(3)) })
			if got := r.Plan(t.Context(), []entity.Outgoing{edited(m, c.edit)}, false)[0]; got.Err != nil || got.Partition != c.want {
				t.Errorf("Plan = partition %d, %v, want %d", got.Partition, got.Err, c.want)
			}
		})
	}
}

func TestPublishOfAnEdit(t *testing.T) {
	t.Parallel()
	own := []entity.Header{{Key: "trace", Value: []byte("1")}, {Key: "kafka_dlt-original-topic", Value: []byte(orders)}}
	cases := []struct {
		name       string
		edit       entity.Edit
		key, value []byte
		headers    []entity.Header
	}{
		{"Nothing", entity.Edit{}, []byte("key"), []byte("value"), []entity.Header{{Key: "trace", Value: []byte("1")}}},
		{"Value", entity.Edit{SetValue: true, Value: []byte{0xff, 0}}, []byte("key"), []byte{0xff, 0}, []entity.Header{{Key: "trace", Value: []byte("1")}}},
		{"NullForAValue", entity.Edit{SetValue: true}, []byte("key"), nil, []entity.Header{{Key: "trace", Value: []byte("1")}}},
		{"Key", entity.Edit{SetKey: true, Key: []byte("k2")}, []byte("k2"), []byte("value"), []entity.Header{{Key: "trace", Value: []byte("1")}}},
		{"NullForAKey", entity.Edit{SetKey: true}, nil, []byte("value"), []entity.Header{{Key: "trace", Value: []byte("1")}}},
		{"NoHeaders", entity.Edit{SetHeaders: true}, []byte("key"), []byte("value"), nil},
		{
			"HeadersWithoutOursAndTheDialects",
			entity.Edit{SetHeaders: true, Headers: []entity.Header{
				{Key: "a", Value: nil},
				{Key: "dlq-redrive-id", Value: []byte("forged")},
				{Key: "kafka_dlt-original-topic", Value: []byte("x")},
				{Key: "a", Value: []byte{}},
			}},
			[]byte("key"),
			[]byte("value"),
			[]entity.Header{{Key: "a", Value: nil}, {Key: "a", Value: []byte{}}},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLogs()
			r := newRepublisher(t, l)
			m := message(func(m *entity.Message) { m.Record.Headers = own })
			batch := claimedAs(t, r, edited(m, c.edit))
			check.Equal(t, batch[0].Target.SentHash, entity.RecordHash(c.key, c.value), "SentHash")
			d := r.Publish(t.Context(), batch)[0]
			check.Require(t, d.Verdict == entity.Acknowledged, "Publish = %+v, want acknowledged", d)
			sent := l.records[part(d.Partition)][0]
			check.True(t, reflect.DeepEqual([][]byte{sent.Key, sent.Value}, [][]byte{c.key, c.value}),
				"sent %#v, %#v, want %#v, %#v", sent.Key, sent.Value, c.key, c.value)
			kept := append([]entity.Header(nil), sent.Headers[:len(sent.Headers)-5]...)
			check.Equal(t, kept, c.headers, "headers")
			got := r.FindMany(t.Context(), []entity.Claim{batch[0].Message.Claim})[0]
			check.True(t, got.Verdict == entity.Acknowledged, "FindMany = %+v, want it found", got)
			check.True(t, string(m.Record.Value) == "value" && string(m.Record.Key) == "key" && len(m.Record.Headers) == 2,
				"the message's record = %+v, want it unchanged", m.Record)
		})
	}
}

func TestEditedKeyStandsAboveNewKeys(t *testing.T) {
	t.Parallel()
	l := newLogs()
	r := newRepublisher(t, l, func(c *Config) { c.RepublishKey = KeyUUID })
	batch := claimedAs(t, r, edited(message(), entity.Edit{SetKey: true, Key: []byte("typed")}), edited(message(), entity.Edit{SetValue: true, Value: []byte("new")}))
	for i, d := range r.Publish(t.Context(), batch) {
		log := l.records[part(d.Partition)]
		sent := log[d.Offset]
		isTyped := string(sent.Key) == "typed"
		check.True(t, isTyped == (i == 0), "key of %d = %q, want the typed one only where it was typed", i, sent.Key)
		check.Equal(t, batch[i].Target.SentHash, entity.RecordHash(sent.Key, sent.Value), "SentHash of %d", i)
	}
}

func TestEditGoesToItsTopicAndIsFoundThere(t *testing.T) {
	t.Parallel()
	l := newLogs()
	l.topics[fixed] = 3
	r := newRepublisher(t, l, func(cfg *Config) { cfg.RepublishAllow = []string{fixed} })
	batch := claimedAs(t, r, edited(message(to("")), entity.Edit{Topic: fixed}))
	check.Equal(t, r.Publish(t.Context(), batch)[0].Verdict, entity.Acknowledged, "verdict")
	n := len(l.records[broker.TopicPartition{Topic: fixed, Partition: batch[0].Target.Partition}])
	check.True(t, n == 1, "%s has %d records, want 1", fixed, n)
	got := r.FindMany(t.Context(), []entity.Claim{batch[0].Message.Claim})[0]
	check.True(t, got.Verdict == entity.Acknowledged, "FindMany = %+v, want it found in the edit's topic", got)
}

func TestUneditedHasNoHashOfItsOwn(t *testing.T) {
	t.Parallel()
	check.Equal(t, newRepublisher(t, newLogs()).Plan(t.Context(), plain(message()), true)[0].SentHash, 0, "SentHash")
}
