package wire

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
)

// UnknownOrigin is the value of the parameter origin that selects messages whose original topic is unknown.
const UnknownOrigin = "unknown"

// Filter shows the filter of a redrive's selection. A member is null where the filter has no such condition.
type Filter struct {
	Topic         *string         `json:"topic"`
	Status        []entity.Status `json:"status"`
	ErrorClass    *string         `json:"error_class"`
	ConsumerGroup *string         `json:"consumer_group"`
	Dialect       *string         `json:"dialect"`
	GroupID       *uuid.UUID      `json:"group_id"`
	IDs           []uuid.UUID     `json:"id"`
	Origin        *string         `json:"origin"`
	CreatedAfter  *string         `json:"created_after"`
	CreatedBefore *string         `json:"created_before"`
	RetriedAfter  *string         `json:"retried_after"`
	RetriedBefore *string         `json:"retried_before"`
	Key           *string         `json:"key"`
	KeyBase64     []byte          `json:"key_base64"`
	Header        []string        `json:"header"`
	Payload       []string        `json:"payload"`
	Words         *string         `json:"q"`
}

// NewFilter shows a filter with the names and forms of the parameters of a request. It hides masked values.
func NewFilter(f entity.Filter, by Masking) *Filter {
	shown := &Filter{
		IDs:   f.MessageIDs,
		Topic: OrNull(f.Topic), Status: f.Statuses, ErrorClass: OrNull(f.ErrorClass),
		ConsumerGroup: OrNull(f.ConsumerGroup), Dialect: OrNull(f.Dialect), GroupID: OrNull(f.Group),
		CreatedAfter: Stamp(f.CreatedAfter), CreatedBefore: Stamp(f.CreatedBefore),
		RetriedAfter: Stamp(f.RetriedAfter), RetriedBefore: Stamp(f.RetriedBefore),
	}
	for name, text := range map[string]*string{"error_class": shown.ErrorClass, "consumer_group": shown.ConsumerGroup} {
		if text != nil && by.Parameter(name) {
			*text = MaskedText
		}
	}
	if globs := f.Topics.Texts(); len(globs) > 0 {
		shown.Topic = OrNull(strings.Join(globs, ", "))
	}
	if f.UnknownOrigin {
		shown.Origin = OrNull(UnknownOrigin)
	}
	switch {
	case by.HidesKeyText(f.Key):
		shown.Key = new(MaskedText)
	case utf8.Valid(f.Key) && f.Key != nil:
		shown.Key = new(string(f.Key))
	default:
		shown.KeyBase64 = f.Key
	}
	for _, h := range f.Headers {
		shown.Header = append(shown.Header, headerMatch(h, by))
	}
	for _, m := range f.Fields {
		shown.Payload = append(shown.Payload, FieldMatch(m, by))
	}
	if len(f.Words) > 0 {
		shown.Words = OrNull(joinWords(f.Words))
	}
	return shown
}

// headerMatch shows a condition on a header. It hides a masked value, because the filter may come from another user.
func headerMatch(h entity.HeaderMatch, by Masking) string {
	switch {
	case h.Value == nil:
		return h.Name
	case by.Header(h.Name):
		return h.Name + "=" + MaskedText
	default:
		return h.Name + "=" + strings.ToValidUTF8(string(h.Value), "\uFFFD")
	}
}

// FieldMatch shows a condition on the payload. It hides masked values, as headerMatch does.
func FieldMatch(m entity.FieldMatch, by Masking) string {
	if len(m.Values) == 0 {
		return m.Path
	}
	if path, err := payload.ParsePath(m.Path); err != nil || by.CoversPath(path) {
		return m.Path + "=" + MaskedText
	}
	if len(m.Values) == 1 {
		return m.Path + "==" + m.Values[0]
	}
	var plain string // the two values are a JSON string, and the number, true, false or null with the same characters
	if json.Unmarshal([]byte(m.Values[0]), &plain) != nil {
		plain = m.Values[0]
	}
	return m.Path + "=" + plain
}

func joinWords(words []string) string {
	var all []string
	for _, word := range words {
		if strings.ContainsFunc(word, IsSpaceOrQuote) {
			word = `"` + word + `"`
		}
		all = append(all, word)
	}
	return strings.Join(all, " ")
}

// IsSpaceOrQuote reports whether a character separates the words of a search.
func IsSpaceOrQuote(c rune) bool {
	return c == '"' || strings.ContainsRune(" \t\r\n\v\f\u0085\u00a0", c)
}

// Count is the number of messages that match a search.
type Count struct {
	Messages int64 `json:"messages"`
	Exact    bool  `json:"exact"`
	AtLeast  bool  `json:"at_least,omitempty"` // whether more messages may match
}

// SearchPage contains the members that follow the messages in the answer to a search.
type SearchPage struct {
	NextCursor    *string `json:"next_cursor"`
	Count         *Count  `json:"count"`
	SearchedUntil *string `json:"searched_until"`
	// SearchedBackTo is nil when the search is complete. When the search ran out of time, it has searched the messages
	// from SearchedBackTo on.
	SearchedBackTo *string `json:"searched_back_to"`
}
