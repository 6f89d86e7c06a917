package redrives

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
)

// selectionJSON is the stored form of a selection. It contains the number of the ids, but not the ids themselves, which
// are in the batches. The key, the value of a header, and the list of visible patterns are pointers, because an empty
// value differs from a value that is not set.
type selectionJSON struct {
	IDs           int             `json:"ids,omitempty"`
	Archived      bool            `json:"archived,omitempty"`
	MessageIDs    []uuid.UUID     `json:"message_ids,omitempty"`
	Topic         string          `json:"topic,omitempty"`
	Topics        []string        `json:"topics,omitempty"`
	Statuses      []entity.Status `json:"statuses,omitempty"`
	ErrorClass    string          `json:"error_class,omitempty"`
	ConsumerGroup string          `json:"consumer_group,omitempty"`
	Dialect       string          `json:"dialect,omitempty"`
	Group         uuid.UUID       `json:"group_id,omitzero"`
	UnknownOrigin bool            `json:"unknown_origin,omitempty"`
	CreatedAfter  time.Time       `json:"created_after,omitzero"`
	CreatedBefore time.Time       `json:"created_before,omitzero"`
	RetriedAfter  time.Time       `json:"retried_after,omitzero"`
	RetriedBefore time.Time       `json:"retried_before,omitzero"`
	Key           *[]byte         `json:"key,omitempty"`
	HiddenKeys    bool            `json:"hidden_keys,omitempty"`
	Headers       []headerJSON    `json:"headers,omitempty"`
	Fields        []fieldJSON     `json:"fields,omitempty"`
	Words         []string        `json:"words,omitempty"`
	Visible       *[]string       `json:"visible,omitempty"`
	VisibleAlso   [][]string      `json:"visible_also,omitempty"` // further lists of topic patterns; a topic must match each
}

type headerJSON struct {
	Name  string  `json:"name"`
	Value *[]byte `json:"value,omitempty"`
}

type fieldJSON struct {
	Path   string   `json:"path"`
	Values []string `json:"values,omitempty"`
}

// optionsJSON is the stored form of options; durations are in nanoseconds.
type optionsJSON struct {
	Canary          int           `json:"canary,omitempty"`
	CanaryWait      time.Duration `json:"canary_wait,omitempty"`
	Rate            float64       `json:"rate,omitempty"`
	MaxFailureShare float64       `json:"max_failure_share,omitempty"`
	MaxReturnShare  float64       `json:"max_return_share,omitempty"`
	MinSample       int           `json:"min_sample,omitempty"`
	KeepKeyOrder    bool          `json:"keep_key_order,omitempty"`
	Requeue         bool          `json:"requeue,omitempty"`
	AcceptEnvelope  bool          `json:"accept_envelope,omitempty"`
	OriginalTopic   string        `json:"original_topic,omitempty"`
	Patch           []byte        `json:"patch,omitempty"`
	KeepsMasked     bool          `json:"keeps_masked,omitempty"`

	Schema entity.SchemaChoice `json:"schema,omitempty"`
}

// targetJSON is the stored form of a partition to which records of a batch were sent, and of the consumer group whose
// committed offset shows that they were consumed.
type targetJSON struct {
	Topic     string `json:"topic"`
	TopicID   string `json:"topic_id"`
	Partition int32  `json:"partition"`
	Group     string `json:"consumer_group"`
}

func packSelection(s entity.Selection) (string, error) {
	packed := selectionJSON{
		IDs: len(s.IDs), Archived: s.Archived, MessageIDs: s.MessageIDs, Topic: codec.Clean(s.Topic), Topics: codec.CleanAll(s.Topics.Texts()), Statuses: s.Statuses,
		ErrorClass: codec.Clean(s.ErrorClass), ConsumerGroup: codec.Clean(s.ConsumerGroup), Dialect: codec.Clean(s.Dialect),
		Group: s.Group, UnknownOrigin: s.UnknownOrigin,
		CreatedAfter: entity.TruncateTime(s.CreatedAfter), CreatedBefore: entity.TruncateTime(s.CreatedBefore),
		RetriedAfter: entity.TruncateTime(s.RetriedAfter), RetriedBefore: entity.TruncateTime(s.RetriedBefore),
		Key: optionalBytes(s.Key), HiddenKeys: s.HiddenKeys, Words: codec.CleanAll(s.Words),
	}
	for _, h := range s.Headers {
		packed.Headers = append(packed.Headers, headerJSON{Name: codec.Clean(h.Name), Value: optionalBytes(h.Value)})
	}
	for _, f := range s.Fields {
		packed.Fields = append(packed.Fields, fieldJSON{Path: codec.Clean(f.Path), Values: codec.CleanAll(f.Values)})
	}
	if s.Visible != nil {
		parts := s.Visible.Parts()
		texts := codec.CleanAll(parts[0].Texts())
		packed.Visible = &texts
		for _, part := range parts[1:] {
			packed.VisibleAlso = append(packed.VisibleAlso, codec.CleanAll(part.Texts()))
		}
	}
	return codec.Pack(packed)
}

func unpackSelection(text []byte) (entity.Selection, error) {
	var s selectionJSON
	if err := json.Unmarshal(text, &s); err != nil {
		return entity.Selection{}, fmt.Errorf("selection: %w", err)
	}
	f := entity.Filter{
		MessageIDs: s.MessageIDs, Topic: s.Topic, Statuses: s.Statuses, ErrorClass: s.ErrorClass, ConsumerGroup: s.ConsumerGroup, Dialect: s.Dialect,
		Group: s.Group, UnknownOrigin: s.UnknownOrigin,
		CreatedAfter: entity.TruncateTime(s.CreatedAfter), CreatedBefore: entity.TruncateTime(s.CreatedBefore),
		RetriedAfter: entity.TruncateTime(s.RetriedAfter), RetriedBefore: entity.TruncateTime(s.RetriedBefore),
		HiddenKeys: s.HiddenKeys, Words: s.Words,
	}
	if s.Key != nil {
		f.Key = *s.Key
	}
	for _, h := range s.Headers {
		match := entity.HeaderMatch{Name: h.Name}
		if h.Value != nil {
			match.Value = *h.Value
		}
		f.Headers = append(f.Headers, match)
	}
	for _, m := range s.Fields {
		f.Fields = append(f.Fields, entity.FieldMatch(m))
	}
	var err error
	if f.Topics, err = patterns("topics", s.Topics); err != nil {
		return entity.Selection{}, fmt.Errorf("selection: %w", err)
	}
	if s.Visible != nil {
		visible, err := patterns("visible", *s.Visible)
		if err != nil {
			return entity.Selection{}, fmt.Errorf("selection: %w", err)
		}
		for _, texts := range s.VisibleAlso {
			also, err := patterns("visible", texts)
			if err != nil {
				return entity.Selection{}, fmt.Errorf("selection: %w", err)
			}
			visible = visible.And(also)
		}
		f.Visible = &visible
	}
	return entity.Selection{Archived: s.Archived, Filter: f}, nil
}

// patterns parses patterns of topics. For an empty list it returns patterns that match no topic.
func patterns(field string, texts []string) (entity.TopicPatterns, error) {
	if len(texts) == 0 {
		return entity.TopicPatterns{}, nil
	}
	return entity.ParseTopicPatterns(field, texts...)
}

// optionalBytes returns nil when b is nil, otherwise a pointer to b, even when b is empty.
func optionalBytes(b []byte) *[]byte {
	if b == nil {
		return nil
	}
	return &b
}

func packOptions(o entity.RedriveOptions) (string, error) { return codec.Pack(optionsJSON(o)) }

func unpackOptions(text []byte) (entity.RedriveOptions, error) {
	var o optionsJSON
	if err := json.Unmarshal(text, &o); err != nil {
		return entity.RedriveOptions{}, fmt.Errorf("options: %w", err)
	}
	return entity.RedriveOptions(o), nil
}

func unpackReasons(counts map[string]int, text []byte) error {
	var found map[string]int
	if err := json.Unmarshal(text, &found); err != nil {
		return fmt.Errorf("reasons: %w", err)
	}
	for reason, n := range found {
		counts[reason] += n
	}
	return nil
}

// boundJSON is the JSON of a row t of dlq.redrive_topics, as boundRow reads it.
const boundJSON = `json_build_object('topic', t.topic, 'bound', t.bound, 'admitted', t.admitted, 'known', t.known, 'presumed', t.presumed,
		'admitted_at', t.admitted_at, 'counted', t.counted, 'looks', t.looks, 'lifted', t.lifted)`

type boundRow struct {
	Topic      string
	Bound      int
	Admitted   int
	Known      int
	Presumed   int
	AdmittedAt time.Time `json:"admitted_at"`
	Counted    int
	Looks      int
	Lifted     entity.BoundEnd
	Groups     []string
}

func unpackBounds(text []byte) ([]entity.TopicBound, error) {
	if len(text) == 0 {
		return nil, nil
	}
	var rows []boundRow
	if err := json.Unmarshal(text, &rows); err != nil {
		return nil, fmt.Errorf("bounds: %w", err)
	}
	bounds := make([]entity.TopicBound, len(rows))
	for i, r := range rows {
		bounds[i] = entity.TopicBound(r)
		bounds[i].AdmittedAt = entity.TruncateTime(r.AdmittedAt)
	}
	return bounds, nil
}
