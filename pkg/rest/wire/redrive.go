package wire

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/fingerprint"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
)

// Redrive is a redrive with its progress.
type Redrive struct {
	ID        uuid.UUID            `json:"id"`
	Action    entity.RedriveAction `json:"action"`
	State     entity.RedriveState  `json:"state"`
	Note      *string              `json:"note"`
	Actor     *string              `json:"actor"`
	Reason    *string              `json:"reason"`
	RequestID *string              `json:"request_id"`
	Selection Selection            `json:"selection"`
	Options   RedriveOptions       `json:"options"`
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
	NotSent   int            `json:"not_sent,omitempty"`
	Returned  int            `json:"returned"`
	Reasons   map[string]int `json:"reasons"`

	Progress     float64 `json:"progress"`
	Rate         float64 `json:"rate"`
	SecondsLeft  *int64  `json:"seconds_left"`
	WaitingSince *string `json:"waiting_since"`

	// Bounds is null when the redrive does not bound its messages without a known outcome.
	Bounds []Bound `json:"bounds"`

	Outcomes *Outcomes `json:"outcomes,omitempty"`
	// SearchedUntil is only in the answer to the creation of a redrive. It is the time up to which the search index was
	// complete, or null when the search index was not used.
	SearchedUntil **string `json:"searched_until,omitempty"`
}

// Bound shows how many messages of a redrive may be in a topic while their outcomes are not known.
type Bound struct {
	Topic   string  `json:"topic"`
	Bound   *int    `json:"bound"` // null: no longer bounded, see Lifted
	Unknown int     `json:"unknown"`
	Known   int     `json:"known"`
	Waiting bool    `json:"waiting"` // nothing more is sent to the topic until outcomes are known
	Lifted  *string `json:"lifted"`
}

func newBounds(r entity.Redrive) []Bound {
	if !r.Bounded {
		return nil
	}
	bounds := make([]Bound, len(r.Bounds))
	for i, b := range r.Bounds {
		bounds[i] = Bound{Topic: b.Topic, Unknown: b.Unknown(), Known: b.Known + b.Presumed, Waiting: b.Full() && r.State.Active(), Lifted: OrNull(string(b.Lifted))}
		if b.Lifted == "" {
			bounds[i].Bound = &r.Bounds[i].Bound
		}
	}
	return bounds
}

// Selection shows the selection of a redrive. It leaves out ids, of which there may be ten thousand; the list of the
// redrive's messages contains them.
type Selection struct {
	By       string  `json:"by"` // "ids" or "filter"
	Archived bool    `json:"archived"`
	Filter   *Filter `json:"filter"`
}

// RedriveOptions shows the options of a redrive. A number or text that was not given, or is 0, is null.
type RedriveOptions struct {
	Canary          *int     `json:"canary"`
	CanaryWait      *string  `json:"canary_wait"`
	Rate            *float64 `json:"rate"`
	MaxFailureShare *float64 `json:"max_failure_share"`
	MaxReturnShare  *float64 `json:"max_return_share"`
	MinSample       *int     `json:"min_sample"`
	KeepKeyOrder    bool     `json:"keep_key_order"`
	Requeue         bool     `json:"requeue"`
	AcceptEnvelope  bool     `json:"accept_envelope"`

	OriginalTopic *string         `json:"original_topic"`
	Patch         json.RawMessage `json:"patch"`
	// Schema is "same" or "latest": the schema with which patched payloads are encoded. It is null without a patch.
	Schema *entity.SchemaChoice `json:"schema"`
}

// Outcomes counts the sent messages by outcome.
type Outcomes struct {
	Published int `json:"published"`
	Consumed  int `json:"consumed"`
	Returned  int `json:"returned"`
}

// NewRedrive shows the state of a redrive at the time now, with the masked values of its selection and its patch
// hidden.
func NewRedrive(r entity.Redrive, now time.Time, by Masking) Redrive {
	rate := rateOf(r, now)
	return Redrive{
		ID: r.ID, Action: r.Action, State: r.State, Note: OrNull(r.Note), Actor: OrNull(r.Cause.Actor),
		Reason: OrNull(r.Cause.Reason), RequestID: OrNull(r.Cause.RequestID),
		Selection: newSelection(r.Selection, by), Options: newRedriveOptions(r.Options, by), CreatedAt: Stamp(r.CreatedAt),
		UpdatedAt: Stamp(r.UpdatedAt), EndedAt: Stamp(r.EndedAt), Selected: r.Selected,
		Succeeded: r.Counts.Succeeded, Failed: r.Counts.Failed, Dead: r.Counts.Dead, InDoubt: r.Counts.InDoubt,
		Skipped: r.Counts.Skipped, Waiting: r.Counts.Waiting, UnderWay: r.Counts.UnderWay, NotSent: r.NotSent(),
		Returned: r.Counts.Returned, Reasons: reasons(r.Counts.Reasons), Progress: progress(r),
		Rate: math.Round(rate*1000) / 1000, SecondsLeft: secondsLeft(r, rate), WaitingSince: Stamp(r.WaitingSince),
		Bounds: newBounds(r),
	}
}

// reasons returns the map, or an empty map for nil, because clients iterate over it.
func reasons(reasons map[string]int) map[string]int {
	if reasons == nil {
		return map[string]int{}
	}
	return reasons
}

// newSelection shows the selection of a redrive. A selection without conditions was made by ids, which stores do not
// return with the selection.
func newSelection(selection entity.Selection, by Masking) Selection {
	if len(selection.IDs) > 0 || selection.Empty() {
		return Selection{By: "ids", Archived: selection.Archived}
	}
	return Selection{By: "filter", Archived: selection.Archived, Filter: NewFilter(selection.Filter, by)}
}

// shownPatch returns the patch of a redrive as everybody may see it. What somebody wrote into it who may see masked values
// is hidden as a whole where a schema may know the paths by other names.
func shownPatch(o entity.RedriveOptions, by Masking) []byte {
	if by.Schemas && !o.KeepsMasked {
		by.Masks = by.OrAll()
	}
	return by.Patch(o.Patch, nil)
}

func newRedriveOptions(o entity.RedriveOptions, by Masking) RedriveOptions {
	shown := RedriveOptions{
		Canary: OrNull(o.Canary), Rate: OrNull(o.Rate), MaxFailureShare: OrNull(o.MaxFailureShare),
		MaxReturnShare: OrNull(o.MaxReturnShare), MinSample: OrNull(o.MinSample), KeepKeyOrder: o.KeepKeyOrder,
		Requeue: o.Requeue, AcceptEnvelope: o.AcceptEnvelope,
	}
	shown.OriginalTopic = OrNull(o.OriginalTopic)
	if o.Patch != nil {
		shown.Patch = shownPatch(o, by)
		shown.Schema = OrNull(cmp.Or(o.Schema, entity.SameSchema))
	}
	if o.CanaryWait > 0 {
		shown.CanaryWait = OrNull(o.CanaryWait.String())
	}
	return shown
}

// progress returns the share of the messages that have a result, rounded down, so that 1 means all of them.
func progress(r entity.Redrive) float64 {
	if r.Counts.Waiting <= 0 || r.Selected <= 0 {
		return 1
	}
	return math.Floor(float64(r.Selected-r.Counts.Waiting)/float64(r.Selected)*10_000) / 10_000
}

// rateOf returns how many results per second the redrive has had so far. The time includes pauses. Messages that were
// left out when the redrive was created do not count.
func rateOf(r entity.Redrive, now time.Time) float64 {
	end := r.EndedAt
	switch {
	case !end.IsZero():
	case r.State.Active():
		end = now
	default: // a stopped or paused redrive has last changed when it was stopped or paused
		end = r.UpdatedAt
	}
	done, took := r.Selected-r.LeftOut-r.Counts.Waiting, end.Sub(r.CreatedAt).Seconds()
	if done <= 0 || took <= 0 {
		return 0
	}
	return float64(done) / took
}

// secondsLeft returns how many seconds the redrive still needs: 0 when the redrive is over, nil when that is unknown,
// because the redrive does not run now or has no rate yet.
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

// RedriveItem is one message of a redrive.
type RedriveItem struct {
	Number    int             `json:"number"`
	ID        uuid.UUID       `json:"id"`
	Result    string          `json:"result"`
	Reason    *string         `json:"reason"`
	Topic     *string         `json:"topic"`
	Partition *int32          `json:"partition"`
	Offset    *int64          `json:"offset"`
	Outcome   *entity.Outcome `json:"outcome"`
}

// ResultWaiting is the result that is shown for a message of a redrive that has none yet.
const ResultWaiting = "waiting"

// NewRedriveItem shows an item of a redrive.
func NewRedriveItem(i entity.RedriveItem) RedriveItem {
	return RedriveItem{
		Number: i.Number, ID: i.MessageID, Result: ResultName(i.Result), Reason: OrNull(i.Reason),
		Topic: OrNull(i.Topic), Partition: sentTo(i.Topic, i.Partition), Offset: sentTo(i.Topic, i.Offset),
		Outcome: OrNull(i.Outcome),
	}
}

// ResultName returns the name of a result in requests and answers.
func ResultName(r entity.ItemResult) string {
	if r == entity.ItemWaiting {
		return ResultWaiting
	}
	return string(r)
}

// Preview is the answer to a dry run.
type Preview struct {
	Action   entity.RedriveAction `json:"action"`
	Selected int                  `json:"selected"`
	Sendable int                  `json:"sendable"`
	Reasons  map[string]int       `json:"reasons"`
	Groups   []PreviewGroup       `json:"groups"`
	Messages []PreviewMessage     `json:"messages"`
	Samples  []PatchSample        `json:"samples"`

	// PatchChecked is the number of messages on which the dry run tried the patch. PatchFailed is the number of these
	// to which the patch cannot be applied. PatchComplete says whether the dry run tried it on all messages of the
	// selection. PatchFailures contains the most common reasons.
	PatchChecked  int            `json:"patch_checked"`
	PatchFailed   int            `json:"patch_failed"`
	PatchComplete bool           `json:"patch_complete"`
	PatchFailures []PatchFailure `json:"patch_failures"`

	Overlaps      []Overlap `json:"overlaps"`
	SearchedUntil *string   `json:"searched_until"`
}

// PatchFailure is a reason why a patch cannot be applied, with the number of messages for which this is the reason,
// and the id of one of them.
type PatchFailure struct {
	Reason   string    `json:"reason"`
	Messages int       `json:"messages"`
	Example  uuid.UUID `json:"example"`
}

func newPatchFailure(f entity.PatchFailure) PatchFailure {
	return PatchFailure{f.Reason, f.Messages, f.Example}
}

// Overlap is another redrive that is not over, and the number of messages that wait in it and also in this redrive, or
// that a dry run selects.
type Overlap struct {
	ID        uuid.UUID            `json:"id"`
	Action    entity.RedriveAction `json:"action"`
	State     entity.RedriveState  `json:"state"`
	Actor     *string              `json:"actor"`
	CreatedAt *string              `json:"created_at"`
	Messages  int                  `json:"messages"`
}

// NewOverlap shows an overlap.
func NewOverlap(o entity.Overlap) Overlap {
	return Overlap{o.ID, o.Action, o.State, OrNull(o.Actor), Stamp(o.CreatedAt), o.Messages}
}

// ReturnedError is an error with which messages of a redrive came back: an error group with the number of these
// messages. An entry without an error group counts all other messages.
type ReturnedError struct {
	GroupID  *uuid.UUID `json:"group_id"`
	Class    *string    `json:"class"`
	Title    *string    `json:"title"`
	Messages int        `json:"messages"`
}

// maxReturnedErrors limits the error groups of an answer. The messages of the other groups are counted together.
const maxReturnedErrors = 50

// NewReturnedErrors adds up the messages of visible topics for each of at most maxReturnedErrors error groups, the
// largest group first. All other messages are one entry without a group.
func NewReturnedErrors(list []entity.ReturnedError, visible *entity.TopicPatterns, unmasked bool) []ReturnedError {
	sums, others := []ReturnedError{}, ReturnedError{}
	for _, e := range list {
		of := entity.Message{OriginalTopic: e.Topic, Source: entity.Source{Topic: e.DLQTopic}}
		i := slices.IndexFunc(sums, func(s ReturnedError) bool { return *s.GroupID == e.Group })
		switch {
		case e.Group == uuid.Nil || visible != nil && !visible.Sees(&of) || i < 0 && len(sums) == maxReturnedErrors:
			others.Messages += e.Messages
		case i >= 0:
			sums[i].Messages += e.Messages
		default:
			if !unmasked {
				e.Class, e.Title = MaskedText, MaskedText
			}
			sums = append(sums, ReturnedError{&e.Group, OrNull(e.Class), OrNull(e.Title), e.Messages})
		}
	}
	slices.SortStableFunc(sums, func(a, b ReturnedError) int { return cmp.Compare(b.Messages, a.Messages) })
	if others.Messages > 0 {
		sums = append(sums, others)
	}
	return sums
}

// PatchSample shows the payload of one message before and after the patch, or the reason why the patch cannot be
// applied.
type PatchSample struct {
	MessageID uuid.UUID       `json:"message_id"`
	Before    json.RawMessage `json:"before"`
	After     json.RawMessage `json:"after"`
	Reason    *string         `json:"reason"`
}

// PreviewMessage is one of the messages that a redrive would process. Target is null when the redrive sends nothing.
type PreviewMessage struct {
	ID            uuid.UUID `json:"id"`
	OriginalTopic string    `json:"original_topic"`
	Target        *string   `json:"target"`
	ErrorMessage  string    `json:"error_message"`
	ErrorClass    *string   `json:"error_class"`
	Cause         string    `json:"cause"`
	CreatedAt     *string   `json:"created_at"`
}

// newPreviewMessage shows a message with the masks of lists.
func newPreviewMessage(p entity.PreviewMessage, by Masking) PreviewMessage {
	c := shown{Message: &p.Message}
	c.maskDerived(by.Derived.Of(&p.Message))
	return PreviewMessage{
		ID: c.ID, OriginalTopic: c.OriginalTopic, Target: OrNull(p.Target), ErrorMessage: c.ErrorMessage,
		ErrorClass: OrNull(c.Failure.Class), Cause: fingerprint.Cause(c.Failure.Class, c.ErrorMessage, ""), CreatedAt: Stamp(c.CreatedAt),
	}
}

// PreviewGroup counts the messages of one topic with the same result. Target is the topic to which they would be sent;
// null when the redrive sends nothing, or this is not known. TargetMissing means that they cannot be sent
// because the topic to which they would be sent does not exist.
type PreviewGroup struct {
	Topic         *string `json:"topic"`
	Target        *string `json:"target"`
	Messages      int     `json:"messages"`
	Class         *string `json:"class"`
	Reason        *string `json:"reason"`
	TargetMissing bool    `json:"target_missing"`
	// ReplayRemoves are the headers that the replay of one of the messages loses.
	ReplayRemoves []string `json:"replay_removes"`
}

func newPreviewGroup(g entity.PreviewGroup) PreviewGroup {
	return PreviewGroup{OrNull(g.Topic), OrNull(g.Target), g.Messages, OrNull(g.Class), OrNull(g.Reason), g.Missing, ListOf(g.ReplayRemoves)}
}

// maskedReason replaces the reasons why a patch cannot be applied, because these reasons name paths, and a path may
// contain values.
const maskedReason = "the reason is hidden, because fields of payloads are masked"

func maskReasons(p *entity.Preview) {
	failures := p.Check.Failures
	if p.Check.Failures = nil; len(failures) > 0 {
		p.Check.Failures = []entity.PatchFailure{{Reason: maskedReason, Messages: p.Check.Failed, Example: failures[0].Example}}
	}
	p.Samples = slices.Clone(p.Samples)
	for i := range p.Samples {
		if p.Samples[i].Reason != "" {
			p.Samples[i].Reason = maskedReason
		}
	}
}

// NewPreview shows the result of a dry run. searchedUntil is null when the search index was not used. If payload fields
// are masked, the reasons why a patch cannot be applied are shown only with unmasked.
func NewPreview(action entity.RedriveAction, p entity.Preview, searchedUntil *string, by Masking, unmasked bool) Preview {
	if !unmasked && by.CoversPath(payload.Path{}) {
		maskReasons(&p)
	}
	var overlaps []Overlap
	if p.Overlaps != nil {
		overlaps = Each(p.Overlaps, NewOverlap)
	}
	return Preview{
		Action: action, Selected: p.Selected, Sendable: p.Sendable, Reasons: reasons(p.Reasons), Groups: Each(p.Groups, newPreviewGroup),
		Messages: Each(p.Messages, func(m entity.PreviewMessage) PreviewMessage { return newPreviewMessage(m, by) }),
		Samples:  newSamples(p.Samples, by), PatchChecked: p.Check.Checked, PatchFailed: p.Check.Failed,
		PatchComplete: p.Check.Complete, PatchFailures: Each(p.Check.Failures, newPatchFailure), SearchedUntil: searchedUntil,
		Overlaps: overlaps,
	}
}

// maxSamples is the maximum number of samples in the answer to a dry run; a payload of more than maxSample bytes is
// null in a sample.
const (
	maxSamples = 5
	maxSample  = MaxListPayload
)

// newSamples shows at most maxSamples samples, and masks the payloads before and after the patch. The patch cannot have
// moved a masked value to a path without a mask: such a patch is refused, as a whole or for the message.
func newSamples(samples []entity.PatchSample, by Masking) []PatchSample {
	return Each(samples[:min(len(samples), maxSamples)], func(sample entity.PatchSample) PatchSample {
		return PatchSample{sample.MessageID, sampleSide(sample.Before, sample.Names, by), sampleSide(sample.After, sample.Names, by), OrNull(sample.Reason)}
	})
}

// sampleSide returns a payload for a sample, with masks; nil, which becomes null, for a payload that cannot be part of
// an answer.
func sampleSide(value []byte, names entity.Names, by Masking) json.RawMessage {
	text, _ := projectPayload(entity.Record{Value: value}, maxSample)
	if text == nil {
		return nil
	}
	masked, _ := by.Read(text, names).Shown()
	return masked
}
