package deadletter

import (
	"errors"
	"strings"
	"testing"
	"time"

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
			if r.OriginalTopic != tt.want || r.Origin.Confidence != entity.FromMapping {
				t.Errorf("Decode = %q by %s, want %q by mapping", r.OriginalTopic, r.Origin.Confidence, tt.want)
			}
		})
	}
}

func TestMappingKeepsPositionOfTheSameTopicOnly(t *testing.T) {
	t.Parallel()
	rec := entity.Record{Headers: springHeaders("orders")}
	for target, want := range map[string]bool{"orders": true, "elsewhere": false} {
		d := decoder(t, []string{"*-dlt"}, MapRule{Pattern: "*-dlt", Original: target})
		r := d.Decode("orders-dlt", rec, time.Time{}, nil)
		if got := r.Origin.Partition != nil && r.Origin.Offset != nil; got != want {
			t.Errorf("mapped to %s: position kept = %v, want %v", target, got, want)
		}
		if r.Origin.Timestamp.IsZero() {
			t.Errorf("mapped to %s: no timestamp, want the record's", target)
		}
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
	patterns, err := ParsePatterns("*.dlq.v1")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := New(patterns, []MapRule{{"ok", "ok"}, tt.rule})
			if !errors.Is(err, entity.ErrInvalid) {
				t.Fatalf("New = %v, want an error of kind ErrInvalid", err)
			}
			for _, part := range tt.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("New: %q does not say %q", err, part)
				}
			}
		})
	}
}

func TestConfigValidateReportsEveryRule(t *testing.T) {
	t.Parallel()
	if err := DefaultConfig().Validate(); err != nil {
		t.Errorf("DefaultConfig().Validate() = %v, want nil", err)
	}
	err := Config{TopicMap: []MapRule{{"", "a"}, {"ok", "ok"}, {"*", "$3"}}}.Validate()
	for _, part := range []string{"topic_map[0]", "topic_map[2]"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("Validate() = %v, want %s in it", err, part)
		}
	}
}
