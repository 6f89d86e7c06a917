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

func TestDialectConfigSaysEverythingThatIsWrong(t *testing.T) {
	t.Parallel()
	good := DialectConfig{Name: "mine", Anchors: []string{"a"}, Topic: "t"}
	tests := map[string]struct {
		spoil func(c *DialectConfig)
		field string
	}{
		"NoName":             {func(c *DialectConfig) { c.Name = "" }, "kafka.dialects[1].name: "},
		"OddName":            {func(c *DialectConfig) { c.Name = "A b" }, "kafka.dialects[1].name: "},
		"BuiltInName":        {func(c *DialectConfig) { c.Name = "spring-dlt" }, "kafka.dialects[1].name: "},
		"GenericName":        {func(c *DialectConfig) { c.Name = "generic" }, "kafka.dialects[1].name: "},
		"NameTwice":          {func(c *DialectConfig) { c.Name = "first" }, "kafka.dialects[1].name: "},
		"NoAnchor":           {func(c *DialectConfig) { c.Anchors = nil }, "kafka.dialects[1].anchors: "},
		"EmptyAnchor":        {func(c *DialectConfig) { c.Anchors = []string{"a", ""} }, "kafka.dialects[1].anchors[1]: "},
		"OurHeader":          {func(c *DialectConfig) { c.Message = HeaderRedriveID }, "kafka.dialects[1].message: "},
		"NothingToRead":      {func(c *DialectConfig) { c.Topic = "" }, "kafka.dialects[1]: "},
		"PositionOfNoTopic":  {func(c *DialectConfig) { c.Topic, c.Offset = "", "o" }, "kafka.dialects[1].topic: "},
		"BadPattern":         {func(c *DialectConfig) { c.Topics = []string{"*", "a b"} }, "kafka.dialects[1].topics[1]: "},
		"EmptyStrip":         {func(c *DialectConfig) { c.Strip = []string{"a", ""} }, "kafka.dialects[1].strip[1]: "},
		"StripOfEverything":  {func(c *DialectConfig) { c.Strip = []string{"*"} }, "kafka.dialects[1].strip[0]: "},
		"StarInTheMiddle":    {func(c *DialectConfig) { c.Strip = []string{"a*b"} }, "kafka.dialects[1].strip[0]: "},
		"BadPatternAndStrip": {func(c *DialectConfig) { c.Topics, c.Strip = []string{"^x"}, []string{"**"} }, "kafka.dialects[1].strip[0]: "},
	}
	first := DialectConfig{Name: "first", Anchors: []string{"f"}, Topic: "t"}
	check.NoError(t, (Config{Dialects: []DialectConfig{first, good}}).Validate())
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bad := good
			tt.spoil(&bad)
			err := Config{Dialects: []DialectConfig{first, bad}, UberDLQTopics: []string{"a b"}, TopicMap: []MapRule{{}}}.Validate()
			check.Require(t, errors.Is(err, entity.ErrInvalid), "Validate = %v, want an error of kind ErrInvalid", err)
			for _, field := range []string{tt.field, "kafka.uber_dlq_topics[0]: ", "kafka.topic_map[0].pattern: "} {
				check.True(t, strings.Contains(err.Error(), field), "Validate = %q, want %q in it", err, field)
			}
		})
	}
}

func TestTooManyDialectsAreRefused(t *testing.T) {
	t.Parallel()
	var list []DialectConfig
	for i := range maxDialects + 1 {
		list = append(list, DialectConfig{Name: "d" + string(rune('a'+i%26)) + string(rune('a'+i/26)), Anchors: []string{"a"}, Topic: "t"})
	}
	if err := (Config{Dialects: list}).Validate(); err == nil || !strings.Contains(err.Error(), "kafka.dialects: ") {
		t.Errorf("Validate of %d dialects = %v, want an error", len(list), err)
	}
	err := (Config{Dialects: list[:maxDialects]}).Validate()
	check.True(t, err == nil, "Validate of %d dialects = %v, want nil", maxDialects, err)
}

// A dialectSet must have a bit for each dialect, even with as many of the user's dialects as are allowed.
func TestTheLastOfManyDialectsIsRead(t *testing.T) {
	t.Parallel()
	var list []DialectConfig
	for i := range maxDialects {
		name := "d" + string(rune('a'+i%26)) + string(rune('a'+i/26))
		list = append(list, DialectConfig{Name: name, Anchors: []string{name}, Topic: name})
	}
	d := check.Must(New(Config{Dialects: list}, Patterns{}))(t)
	last := list[maxDialects-1].Name
	for dialect, h := range map[string][]entity.Header{
		last:   {{Key: last, Value: []byte("orders")}},
		"dapr": {{Key: "__topic", Value: []byte("orders")}, {Key: "__partition", Value: []byte("1")}, {Key: "__offset", Value: []byte("1")}},
	} {
		r := d.Decode("x", entity.Record{Headers: h}, time.Time{}, nil)
		check.True(t, r.Failure.Dialect == dialect && r.OriginalTopic == "orders",
			"read as %q of %q, want %q of orders", r.Failure.Dialect, r.OriginalTopic, dialect)
	}
}

func TestDialectsListsConfiguredOnesFirst(t *testing.T) {
	t.Parallel()
	d := check.Must(New(Config{Dialects: []DialectConfig{{Name: "mine", Anchors: []string{"a"}, Topic: "t"}}}, Patterns{}))(t)
	got, want := d.Dialects(), append([]string{"mine"}, Dialects()...)
	check.True(t, slices.Equal(got, want), "Dialects() = %v, want %v", got, want)
}
