package postgres

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// selectionJSON is a selection as it is kept beside a redrive. The ids are in its
// batches and only counted here.
type selectionJSON struct {
	IDs           int             `json:"ids,omitempty"`
	Topic         string          `json:"topic,omitempty"`
	Statuses      []entity.Status `json:"statuses,omitempty"`
	ErrorClass    string          `json:"error_class,omitempty"`
	ConsumerGroup string          `json:"consumer_group,omitempty"`
	CreatedAfter  time.Time       `json:"created_after,omitzero"`
	CreatedBefore time.Time       `json:"created_before,omitzero"`
}

// optionsJSON are the options as they are kept; durations are nanoseconds.
type optionsJSON struct {
	Canary          int           `json:"canary,omitempty"`
	CanaryWait      time.Duration `json:"canary_wait,omitempty"`
	Rate            float64       `json:"rate,omitempty"`
	MaxFailureShare float64       `json:"max_failure_share,omitempty"`
	MaxReturnShare  float64       `json:"max_return_share,omitempty"`
	MinSample       int           `json:"min_sample,omitempty"`
	KeepKeyOrder    bool          `json:"keep_key_order,omitempty"`
	Requeue         bool          `json:"requeue,omitempty"`
	OriginalTopic   string        `json:"original_topic,omitempty"`
	Patch           []byte        `json:"patch,omitempty"`
}

// placeJSON is where records of a batch were sent, and who reads them there.
type placeJSON struct {
	Topic     string `json:"topic"`
	TopicID   string `json:"topic_id"`
	Partition int32  `json:"partition"`
	Group     string `json:"consumer_group"`
}

func packSelection(s entity.Selection) (string, error) {
	return pack(selectionJSON{
		IDs: len(s.IDs), Topic: clean(s.Topic), Statuses: s.Statuses, ErrorClass: clean(s.ErrorClass),
		ConsumerGroup: clean(s.ConsumerGroup),
		CreatedAfter:  entity.Moment(s.CreatedAfter), CreatedBefore: entity.Moment(s.CreatedBefore),
	})
}

func unpackSelection(text []byte) (entity.Selection, error) {
	var s selectionJSON
	if err := json.Unmarshal(text, &s); err != nil {
		return entity.Selection{}, fmt.Errorf("selection: %w", err)
	}
	return entity.Selection{Filter: entity.Filter{
		Topic: s.Topic, Statuses: s.Statuses, ErrorClass: s.ErrorClass, ConsumerGroup: s.ConsumerGroup,
		CreatedAfter: entity.Moment(s.CreatedAfter), CreatedBefore: entity.Moment(s.CreatedBefore),
	}}, nil
}

func packOptions(o entity.RedriveOptions) (string, error) { return pack(optionsJSON(o)) }

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

// pack returns JSON as text: bytes would travel in the binary form of jsonb.
func pack(v any) (string, error) {
	text, err := json.Marshal(v)
	return string(text), err
}
