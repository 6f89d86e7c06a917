package rest

import (
	"encoding/json"
	"math"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

type redriveJSON struct {
	ID        uuid.UUID            `json:"id"`
	Action    entity.RedriveAction `json:"action"`
	State     entity.RedriveState  `json:"state"`
	Note      *string              `json:"note"`
	Actor     *string              `json:"actor"`
	Reason    *string              `json:"reason"`
	RequestID *string              `json:"request_id"`
	Selection selectionJSON        `json:"selection"`
	Options   optionsJSON          `json:"options"`
	CreatedAt *string              `json:"created_at"`
	UpdatedAt *string              `json:"updated_at"`
	EndedAt   *string              `json:"ended_at"`

	Selected  int            `json:"selected"`
	Succeeded int            `json:"succeeded"`
	Failed    int            `json:"failed"`
	Dead      int            `json:"dead"`
	InDoubt   int            `json:"in_doubt"`
	Skipped   int            `json:"skipped"`
	Waiting   int            `json:"waiting"`
	UnderWay  int            `json:"under_way"`
	Returned  int            `json:"returned"`
	Reasons   map[string]int `json:"reasons"`

	Progress     float64 `json:"progress"`
	Rate         float64 `json:"rate"`
	SecondsLeft  *int64  `json:"seconds_left"`
	WaitingSince *string `json:"waiting_since"`

	Outcomes      *outcomesJSON `json:"outcomes,omitempty"`
	SearchedUntil **string      `json:"searched_until,omitempty"` // only in the answer of the creation; null without the index
}

// selectionJSON shows the selection. Ids are left out: there may be ten thousand, and the items have them.
type selectionJSON struct {
	By     string      `json:"by"` // "ids" or "filter"
	Filter *filterJSON `json:"filter"`
}

type filterJSON struct {
	Topic         *string         `json:"topic"`
	Status        []entity.Status `json:"status"`
	ErrorClass    *string         `json:"error_class"`
	ConsumerGroup *string         `json:"consumer_group"`
	Dialect       *string         `json:"dialect"`
	GroupID       *uuid.UUID      `json:"group_id"`
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

// optionsJSON has null for options that were not given.
type optionsJSON struct {
	Canary          *int     `json:"canary"`
	CanaryWait      *string  `json:"canary_wait"`
	Rate            *float64 `json:"rate"`
	MaxFailureShare *float64 `json:"max_failure_share"`
	MaxReturnShare  *float64 `json:"max_return_share"`
	MinSample       *int     `json:"min_sample"`
	KeepKeyOrder    bool     `json:"keep_key_order"`
	Requeue         bool     `json:"requeue"`

	OriginalTopic *string         `json:"original_topic"`
	Patch         json.RawMessage `json:"patch"`
}

type outcomesJSON struct {
	Published int `json:"published"`
	Consumed  int `json:"consumed"`
	Returned  int `json:"returned"`
}

func (s *Server) showRedrive(r entity.Redrive) redriveJSON {
	now := s.now()
	rate := rateOf(r, now)
	return redriveJSON{
		ID: r.ID, Action: r.Action, State: r.State, Note: orNull(r.Note), Actor: orNull(r.Cause.Actor),
		Reason: orNull(r.Cause.Reason), RequestID: orNull(r.Cause.RequestID),
		Selection: s.showSelection(r.Selection), Options: s.showOptions(r.Options), CreatedAt: stamp(r.CreatedAt),
		UpdatedAt: stamp(r.UpdatedAt), EndedAt: stamp(r.EndedAt), Selected: r.Selected,
		Succeeded: r.Counts.Succeeded, Failed: r.Counts.Failed, Dead: r.Counts.Dead, InDoubt: r.Counts.InDoubt,
		Skipped: r.Counts.Skipped, Waiting: r.Counts.Waiting, UnderWay: r.Counts.UnderWay,
		Returned: r.Counts.Returned, Reasons: showReasons(r.Counts.Reasons), Progress: progress(r),
		Rate: math.Round(rate*1000) / 1000, SecondsLeft: secondsLeft(r, rate), WaitingSince: stamp(r.WaitingSince),
	}
}

// showReasons never returns nil, because clients iterate over it.
func showReasons(reasons map[string]int) map[string]int {
	if reasons == nil {
		return map[string]int{}
	}
	return reasons
}

// showSelection shows a selection without conditions as one by ids, because stores do not return the ids.
func (s *Server) showSelection(selection entity.Selection) selectionJSON {
	if len(selection.IDs) > 0 || selection.Empty() {
		return selectionJSON{By: "ids"}
	}
	return selectionJSON{By: "filter", Filter: s.showFilter(selection.Filter)}
}

func (s *Server) showOptions(o entity.RedriveOptions) optionsJSON {
	shown := optionsJSON{
		Canary: orNull(o.Canary), Rate: orNull(o.Rate), MaxFailureShare: orNull(o.MaxFailureShare),
		MaxReturnShare: orNull(o.MaxReturnShare), MinSample: orNull(o.MinSample), KeepKeyOrder: o.KeepKeyOrder,
		Requeue: o.Requeue,
	}
	shown.OriginalTopic = orNull(o.OriginalTopic)
	if o.Patch != nil {
		shown.Patch = s.masks.Patch(o.Patch)
	}
	if o.CanaryWait > 0 {
		shown.CanaryWait = orNull(o.CanaryWait.String())
	}
	return shown
}

// progress returns the share of messages that have a result, rounded down: 1 means all of them.
func progress(r entity.Redrive) float64 {
	if r.Counts.Waiting <= 0 || r.Selected <= 0 {
		return 1
	}
	return math.Floor(float64(r.Selected-r.Counts.Waiting)/float64(r.Selected)*10_000) / 10_000
}

// rateOf returns the results per second so far, including pauses, without messages that were left out from the start.
func rateOf(r entity.Redrive, now time.Time) float64 {
	end := r.EndedAt
	if end.IsZero() {
		end = now
	}
	done, took := r.Selected-r.LeftOut-r.Counts.Waiting, end.Sub(r.CreatedAt).Seconds()
	if done <= 0 || took <= 0 {
		return 0
	}
	return float64(done) / took
}

// secondsLeft returns nil when it is unknown: the redrive does not run now, or has no rate yet.
func secondsLeft(r entity.Redrive, rate float64) *int64 {
	if r.State.Over() {
		return new(int64)
	}
	if r.State != entity.RedriveRunning || !r.WaitingSince.IsZero() || rate == 0 {
		return nil
	}
	left := int64(math.Ceil(float64(r.Counts.Waiting) / rate))
	return &left
}

type itemJSON struct {
	Number    int             `json:"number"`
	ID        uuid.UUID       `json:"id"`
	Result    string          `json:"result"`
	Reason    *string         `json:"reason"`
	Topic     *string         `json:"topic"`
	Partition *int32          `json:"partition"`
	Offset    *int64          `json:"offset"`
	Outcome   *entity.Outcome `json:"outcome"`
}

const resultWaiting = "waiting"

func showItem(i entity.RedriveItem) itemJSON {
	return itemJSON{
		Number: i.Number, ID: i.MessageID, Result: resultName(i.Result), Reason: orNull(i.Reason),
		Topic: orNull(i.Topic), Partition: sentTo(i.Topic, i.Partition), Offset: sentTo(i.Topic, i.Offset),
		Outcome: orNull(i.Outcome),
	}
}

func resultName(r entity.ItemResult) string {
	if r == entity.ItemWaiting {
		return resultWaiting
	}
	return string(r)
}

type previewJSON struct {
	Action   entity.RedriveAction `json:"action"`
	Selected int                  `json:"selected"`
	Sendable int                  `json:"sendable"`
	Reasons  map[string]int       `json:"reasons"`
	Groups   []previewGroupJSON   `json:"groups"`
	Samples  []sampleJSON         `json:"samples"`

	// The number of messages that the patch was tried on, and of those to which it could not be applied.
	PatchChecked int `json:"patch_checked"`
	PatchFailed  int `json:"patch_failed"`

	SearchedUntil *string `json:"searched_until"`
}

// sampleJSON shows the payload of one message before and after a patch.
type sampleJSON struct {
	MessageID uuid.UUID       `json:"message_id"`
	Before    json.RawMessage `json:"before"`
	After     json.RawMessage `json:"after"`
	Reason    *string         `json:"reason"`
}

type previewGroupJSON struct {
	Topic    *string `json:"topic"`
	Messages int     `json:"messages"`
	Class    *string `json:"class"`
	Reason   *string `json:"reason"`
}

func (s *Server) showPreview(action entity.RedriveAction, p entity.Preview, searched searchedUntil) previewJSON {
	groups := each(p.Groups, func(g entity.PreviewGroup) previewGroupJSON {
		return previewGroupJSON{orNull(g.Topic), g.Messages, orNull(g.Class), orNull(g.Reason)}
	})
	failed := 0
	for _, sample := range p.Samples {
		if sample.Reason != "" {
			failed++
		}
	}
	return previewJSON{
		Action: action, Selected: p.Selected, Sendable: p.Sendable, Reasons: showReasons(p.Reasons), Groups: groups,
		Samples: s.showSamples(p.Samples), PatchChecked: len(p.Samples), PatchFailed: failed, SearchedUntil: searched.show(),
	}
}

// maxSamples and maxSample limit the samples of a dry run.
const (
	maxSamples = 5
	maxSample  = maxListPayload
)

// showSamples masks both sides; a patch that moves masked values has already been refused.
func (s *Server) showSamples(samples []entity.PatchSample) []sampleJSON {
	return each(samples[:min(len(samples), maxSamples)], func(sample entity.PatchSample) sampleJSON {
		return sampleJSON{sample.MessageID, s.showSide(sample.Before), s.showSide(sample.After), orNull(sample.Reason)}
	})
}

// showSide returns null for a value that cannot be part of an answer.
func (s *Server) showSide(value []byte) json.RawMessage {
	text, _ := projectPayload(entity.Record{Value: value}, maxSample)
	if text == nil {
		return nil
	}
	masked, _ := s.masks.Payload(text)
	return masked
}
