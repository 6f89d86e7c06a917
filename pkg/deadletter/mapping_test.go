package deadletter

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

func TestMapping(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		rules []MapRule
		topic string
		want  string
	}{
		{"Glob", []MapRule{{"orders.dlq.v1", "orders.events.v1"}}, "orders.dlq.v1", "orders.events.v1"},
		{"GlobGroup", []MapRule{{"*.dlq.v1", "$1.events.v1"}}, "orders.dlq.v1", "orders.events.v1"},
		{"GlobTwoGroups", []MapRule{{"*.dlq.*", "$2-${1}"}}, "orders.dlq.v1", "v1-orders"},
		{"GroupBeforeALetter", []MapRule{{"*.dlq.v1", "$1_x"}}, "orders.dlq.v1", "orders_x"},
		{"GroupBeforeADigit", []MapRule{{"*.dlq.v1", "${1}0"}}, "orders.dlq.v1", "orders0"},
		{"Expression", []MapRule{{`^(.+)\.dlq\.v(\d+)$`, "$1.events.v$2"}}, "orders.dlq.v1", "orders.events.v1"},
		{"FirstRuleWins", []MapRule{{"orders*", "first"}, {"orders.dlq.v1", "second"}}, "orders.dlq.v1", "first"},
		{"OtherTopicsPass", []MapRule{{"payments.dlq.v1", "payments"}, {"*.dlq.v1", "second"}}, "orders.dlq.v1", "second"},
		{"DeadLetterResultIsPassedOver", []MapRule{{"*.dlq.v1", "$1.dlq.v1"}, {"*.dlq.v1", "second"}}, "orders.dlq.v1", "second"},
		{"ImpossibleResultIsPassedOver", []MapRule{{`^(.*)orders.dlq.v1$`, "$1"}, {"*.dlq.v1", "second"}}, "orders.dlq.v1", "second"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rec := entity.Record{Headers: asHeaders([]pair{{"original_topic", []byte("other")}, {"error", []byte("boom")}})}
			r := decoder(t, []string{"*.dlq.v1"}, tt.rules...).Decode(tt.topic, rec, time.Time{}, nil)
			check.True(t, r.OriginalTopic == tt.want && r.Origin.Confidence == entity.FromMapping,
				"Decode = %q by %s, want %q by mapping", r.OriginalTopic, r.Origin.Confidence, tt.want)
		})
	}
}

func TestMappingKeepsPositionOfTheSameTopicOnly(t *testing.T) {
	t.Parallel()
	rec := entity.Record{Headers: springHeaders("orders")}
	for target, want := range map[string]bool{"orders": true, "elsewhere": false} {
		d := decoder(t, []string{"*-dlt"}, MapRule{Pattern: "*-dlt", Original: target})
		r := d.Decode("orders-dlt", rec, time.Time{}, nil)
		check.Equal(t, r.Origin.Partition != nil && r.Origin.Offset != nil, want, "mapped to %s: position kept", target)
		check.True(t, !r.Origin.Timestamp.IsZero(), "mapped to %s: no timestamp, want the record's", target)
	}
}

func TestNewSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		rule MapRule
		says []string
	}{
		{"NoPattern", MapRule{"", "orders"}, []string{"kafka.topic_map[1].pattern", "empty"}},
		{"BadPattern", MapRule{"^(", "orders"}, []string{"kafka.topic_map[1].pattern"}},
		{"NoOriginal", MapRule{"*.dlq", ""}, []string{"kafka.topic_map[1].original"}},
		{"NoTopicName", MapRule{"*.dlq", "a b"}, []string{"kafka.topic_map[1].original", "not a topic name"}},
		{"NoSuchGroup", MapRule{"*.dlq", "$2"}, []string{"kafka.topic_map[1].original", "$2"}},
		{"HugeGroup", MapRule{"*.dlq", "$99999999999999999999"}, []string{"kafka.topic_map[1].original"}},
		{"StrayDollar", MapRule{"*.dlq", "$x"}, []string{"not a topic name"}},
		{"DeadLetterTopic", MapRule{"*.dlq", "x.dlq.v1"}, []string{"kafka.topic_map[1].original", "dead-letter topic"}},
	}
	patterns := check.Must(ParsePatterns("*.dlq.v1"))(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := New(Config{TopicMap: []MapRule{{"ok", "ok"}, tt.rule}}, patterns)
			check.Require(t, errors.Is(err, entity.ErrInvalid), "New = %v, want an error of kind ErrInvalid", err)
			for _, part := range tt.says {
				check.True(t, strings.Contains(err.Error(), part), "New: %q does not say %q", err, part)
			}
		})
	}
}

func TestConfigValidateReportsEveryRule(t *testing.T) {
	t.Parallel()
	check.Equal(t, DefaultConfig().Validate(), nil, "DefaultConfig().Validate()")
	err := Config{TopicMap: []MapRule{{"", "a"}, {"ok", "ok"}, {"*", "$3"}}}.Validate()
	for _, part := range []string{"topic_map[0]", "topic_map[2]"} {
		check.True(t, err != nil && strings.Contains(err.Error(), part), "Validate() = %v, want %s in it", err, part)
	}
}
