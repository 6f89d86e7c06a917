package attempt

import (
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// TestIntents: a claim names the message's original topic, by which the store notices that the topic was changed. A
// claim names none if an operator chose the target.
func TestIntents(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		edit *entity.Edit
		want string
	}{
		{"AsItIs", nil, "orders"},
		{"OfAnEdit", &entity.Edit{SetValue: true}, "orders"},
		{"OfAPatch", &entity.Edit{SetValue: true, Patch: []byte("[]")}, "orders"},
		{"ToATopicThatWasNamed", &entity.Edit{Topic: "payments"}, ""},
	} {
		out := entity.Outgoing{Message: entity.Message{OriginalTopic: "orders"}, Edit: c.edit}
		check.Equal(t, intents([]entity.Outgoing{out}, ClaimOptions{})[0].OriginalTopic, c.want, "%s: topic of the claim", c.name)
	}
}

func TestStorable(t *testing.T) {
	t.Parallel()
	cases := map[string]string{
		"plain":                   "plain",
		"a\x00b\xffc":             "ab\uFFFDc",
		strings.Repeat("é", 1000): strings.Repeat("é", 500),
	}
	for text, want := range cases {
		check.Equal(t, StorableText(text), want, "StorableText(%q)", text)
	}
}
