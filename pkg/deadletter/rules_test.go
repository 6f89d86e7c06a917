package deadletter

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

func TestOperatorsRulesGoFirst(t *testing.T) {
	t.Parallel()
	before := decoder(t, []string{"*.dlq.v1"}, MapRule{"*.dlq.v1", "configured-$1"})
	after := check.Must(before.WithRules([]entity.TopicRule{{Pattern: "orders.dlq.v1", Original: "orders"}}))(t)
	again := check.Must(after.WithRules([]entity.TopicRule{{Pattern: "payments.*", Original: "payments"}}))(t)
	for _, tt := range []struct {
		name  string
		d     *Decoder
		topic string
		want  string
	}{
		{"Before", before, "orders.dlq.v1", "configured-orders"},
		{"After", after, "orders.dlq.v1", "orders"},
		{"OthersByConfiguration", after, "payments.dlq.v1", "configured-payments"},
		{"Replaced", again, "orders.dlq.v1", "configured-orders"},
		{"NoRule", again, "unmatched", ""},
	} {
		check.Equal(t, tt.d.Mapped(tt.topic), tt.want, "%s: Mapped(%s)", tt.name, tt.topic)
		r := tt.d.Decode(tt.topic, entity.Record{}, time.Time{}, nil)
		check.Equal(t, r.OriginalTopic, tt.want, "%s: Decode(%s)", tt.name, tt.topic)
	}
	want := []entity.TopicRule{{Pattern: "*.dlq.v1", Original: "configured-$1"}}
	check.Equal(t, again.ConfiguredRules(), want, "ConfiguredRules()")
}

func TestCheckRulesNamesEveryRule(t *testing.T) {
	t.Parallel()
	d := decoder(t, []string{"*.dlq.v1"})
	rules := []entity.TopicRule{
		{Pattern: "ok", Original: "ok"},
		{Pattern: "", Original: "orders"},
		{Pattern: "*", Original: "$2"},
		{Pattern: "x", Original: "x.dlq.v1"},
	}
	err := d.CheckRules(rules)
	check.Equal(t, fieldsOf(err), []string{"rules[1].pattern", "rules[2].original", "rules[3].original"}, "fields of CheckRules")
	if changed, err := d.WithRules(rules); changed != nil || !errors.Is(err, entity.ErrInvalid) {
		t.Errorf("WithRules = %v, %v, want nil and an error of kind ErrInvalid", changed, err)
	}
	check.Equal(t, d.CheckRules(rules[:1]), nil, "CheckRules")
	got, want := fieldsOf(d.CheckRules(make([]entity.TopicRule, MaxRules+1))), []string{"rules"}
	check.True(t, slices.Equal(got, want), "CheckRules of too many: fields %v, want %v", got, want)
}

// fieldsOf returns the fields that the joined errors name.
func fieldsOf(err error) []string {
	var fields []string
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			fields = append(fields, fieldsOf(e)...)
		}
		return fields
	}
	var field *entity.FieldError
	if errors.As(err, &field) {
		fields = append(fields, field.Field)
	}
	return fields
}

func TestStripForARetryTopicOfHexkitKeepsTheTopic(t *testing.T) {
	t.Parallel()
	d := decoder(t, []string{"*.dlq.v1"})
	h := []entity.Header{{Key: "original_topic"}, {Key: "exc_class"}, {Key: "event_id", Value: []byte("billing,orders,3,17")}, {Key: "type"}}
	keys := func(dialect, target string) string {
		var out []string
		for _, kept := range d.Strip(&entity.Message{Failure: entity.Failure{Dialect: dialect}}, target, h) {
			out = append(out, kept.Key)
		}
		return strings.Join(out, " ")
	}
	for _, tt := range []struct{ dialect, target, want string }{
		{"hexkit", "retry-billing", "original_topic type"},
		{"hexkit", "billing-retry", "original_topic type"},
		{"hexkit", "orders", "type"},
		{"karafka-legacy", "retry-billing", "event_id type"},
		{"", "retry-billing", "original_topic event_id type"},
	} {
		check.Equal(t, keys(tt.dialect, tt.target), tt.want, "Strip(%q, %q)", tt.dialect, tt.target)
	}
	got := stripAs("hexkit", h)
	check.True(t, len(got) == 1, "Strip after one for a retry topic keeps %q, want only type", got)
}

func TestMapTopicTriesRules(t *testing.T) {
	t.Parallel()
	d := decoder(t, []string{"*.dlq.v1"}, MapRule{"*.dlq.v1", "$1"})
	first := []entity.TopicRule{{Pattern: "orders.dlq.v1", Original: "purchases"}}
	for _, tt := range []struct {
		name  string
		rules []entity.TopicRule
		topic string
		want  string
	}{
		{"Rule", first, "orders.dlq.v1", "purchases"},
		{"ConfiguredBehindIt", first, "payments.dlq.v1", "payments"},
		{"NoRules", nil, "orders.dlq.v1", "orders"},
		{"NoneFits", first, "other", ""},
		{"Wrong", []entity.TopicRule{{}}, "orders.dlq.v1", ""},
	} {
		check.Equal(t, d.MapTopic(tt.rules, tt.topic), tt.want, "%s: MapTopic(%s)", tt.name, tt.topic)
	}
	check.Equal(t, d.CheckRules(first), nil, "CheckRules")
	check.Equal(t, fieldsOf(d.CheckRules([]entity.TopicRule{{}})), []string{"rules[0].pattern"}, "fields of CheckRules")
	got := d.ConfiguredRules()
	check.True(t, len(got) == 1 && got[0].Original == "$1", "ConfiguredRules() = %v, want the one rule", got)
}

func TestExplainMessageKeepsToWhatTheMessageRestsOn(t *testing.T) {
	t.Parallel()
	d := decoder(t, []string{"*.dlq"})
	stored := func(topic string, c entity.Confidence, headers ...entity.Header) entity.Derived {
		return d.ExplainMessage(entity.Message{
			OriginalTopic: topic, Origin: entity.Origin{Confidence: c},
			Source: entity.Source{Topic: "orders.dlq"}, Record: entity.Record{Headers: headers},
		}).OriginalTopic
	}
	named := entity.Header{Key: "__connect.errors.topic", Value: []byte("orders")}
	for name, tt := range map[string]struct{ got, want entity.Derived }{
		"Header":   {stored("orders", entity.FromHeader, named), entity.Derived{Source: entity.ByHeader, Dialect: "connect", Header: named.Key, Confidence: entity.CertaintyHigh}},
		"Operator": {stored("payments", entity.FromOperator, named), entity.Derived{Source: entity.ByOperator, Confidence: entity.CertaintyHigh}},
		"Name":     {stored("orders", entity.FromName), entity.Derived{Source: entity.ByName, Confidence: entity.CertaintyLow}},
		"Nothing":  {stored("", entity.FromNothing), entity.NotDerived()},
	} {
		check.True(t, tt.got == tt.want, "%s: original topic by %+v, want %+v", name, tt.got, tt.want)
	}
}
