package rest

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// What the options of a redrive may be.
const (
	maxCount      = 1_000_000
	minRate       = 0.001
	maxRate       = 1_000_000
	minCanaryWait = time.Second
	maxCanaryWait = time.Hour

	// maxFilterText bounds what messages are compared with.
	maxFilterText = 1000
)

// joined is nil when there is no problem.
func joined(p problems) error { return errors.Join(p...) }

// redriveOrder is the body that makes a redrive, as it was sent, and what was
// found to be wrong with it.
type redriveOrder struct {
	action option[string]
	dryRun bool

	ids    option[[]string]
	filter option[filterOrder]

	canary       option[int]
	canaryWait   option[string]
	rate         option[float64]
	failureShare option[float64]
	returnShare  option[float64]
	minSample    option[int]
	keepKeyOrder bool
	requeue      bool

	originalTopic option[string]
	patch         rawJSON

	problems
}

// problems collects what is wrong with a body: whoever wrote it hears of
// everything at once.
type problems []error

// note notes an error, if it is one.
func (p *problems) note(err error) {
	if err != nil {
		*p = append(*p, err)
	}
}

// refuse notes a problem of a field when bad, and returns bad.
func (p *problems) refuse(bad bool, field, format string, args ...any) bool {
	if bad {
		*p = append(*p, &entity.FieldError{Field: field, Reason: fmt.Sprintf(format, args...)})
	}
	return bad
}

// readOrder reads the body of a new redrive.
func (s *Server) readOrder(w http.ResponseWriter, r *http.Request) (order repository.NewRedrive, dryRun bool, err error) {
	var o redriveOrder
	cause, err := s.readChange(w, r, fields{
		"action": &o.action, "dry_run": &o.dryRun, "ids": &o.ids,
		"canary": &o.canary, "canary_wait": &o.canaryWait, "rate": &o.rate,
		"max_failure_share": &o.failureShare, "max_return_share": &o.returnShare, "min_sample": &o.minSample,
		"keep_key_order": &o.keepKeyOrder, "requeue": &o.requeue,
		"filter": object{&o.filter.given, o.filter.value.fields()}, "original_topic": &o.originalTopic, "patch": &o.patch,
	})
	if err != nil {
		return order, false, err
	}
	order = repository.NewRedrive{Action: o.redriveAction(), Cause: cause, Selection: o.selection()}
	order.Options = o.options(order.Action)
	return order, o.dryRun, joined(o.problems)
}

func (o *redriveOrder) redriveAction() entity.RedriveAction {
	if !o.action.given {
		return entity.RedriveRetry
	}
	for _, action := range redriveActions {
		if o.action.value == string(action) {
			return action
		}
	}
	o.refuse(true, "action", "%s", oneOf(redriveActions))
	return ""
}

var redriveActions = []entity.RedriveAction{
	entity.RedriveRetry, entity.RedriveRequeue, entity.RedriveDead, entity.RedriveDelete, entity.RedriveMap,
}

func (o *redriveOrder) selection() entity.Selection {
	if o.refuse(o.ids.given == o.filter.given, "ids", "give either ids or filter") {
		return entity.Selection{}
	}
	if o.ids.given {
		return entity.Selection{IDs: o.messageIDs()}
	}
	return o.filtered()
}

func (o *redriveOrder) messageIDs() []uuid.UUID {
	n := len(o.ids.value)
	if o.refuse(n == 0 || n > entity.MaxSelectedIDs, "ids", "must be 1 to %d ids, are %d", entity.MaxSelectedIDs, n) {
		return nil
	}
	ids := make([]uuid.UUID, 0, n)
	for i, text := range o.ids.value {
		id, ok := canonicalID(text)
		if o.refuse(!ok, "ids", "number %d is not the id of a message: %s", i, clip(text)) {
			return nil
		}
		ids = append(ids, id)
	}
	return ids
}

func (o *redriveOrder) filtered() entity.Selection {
	selection := entity.Selection{Filter: o.filter.value.read("filter.", &o.problems)}
	if len(o.problems) > 0 {
		return selection // what is missing may be what could not be read
	}
	o.refuse(selection.Empty(), "filter", "must name more than times and states: everything there is cannot be meant")
	return selection
}

func (o *redriveOrder) options(action entity.RedriveAction) entity.RedriveOptions {
	if action != entity.RedriveRetry && action != "" {
		o.refuseForRetriesOnly(action)
	}
	mapping := action == entity.RedriveMap
	o.refuse(mapping && !entity.ValidTopic(o.originalTopic.value), "original_topic", "must be the name of a topic, for action map")
	o.refuse(!mapping && action != "" && o.originalTopic.given, "original_topic", "is for action map, not for %s", action)
	options := entity.RedriveOptions{
		Canary:          o.count("canary", o.canary, 0),
		Rate:            o.rate.value,
		MaxFailureShare: o.share("max_failure_share", o.failureShare),
		MaxReturnShare:  o.share("max_return_share", o.returnShare),
		MinSample:       o.count("min_sample", o.minSample, 1),
		KeepKeyOrder:    o.keepKeyOrder,
		Requeue:         o.requeue,
		OriginalTopic:   o.originalTopic.value,
		Patch:           o.jsonPatch(),
	}
	o.refuse(o.rate.given && !(o.rate.value >= minRate && o.rate.value <= maxRate), "rate",
		"must be %v to %d messages a second", minRate, maxRate)
	if options.CanaryWait = o.wait(); options.Canary > 0 && !o.canaryWait.given {
		options.CanaryWait = entity.DefaultCanaryWait
	}
	watched := options.MaxFailureShare > 0 || options.MaxReturnShare > 0
	o.refuse(o.canaryWait.given && options.Canary == 0, "canary_wait", "needs a canary")
	o.refuse(o.minSample.given && !watched, "min_sample", "needs max_failure_share or max_return_share")
	if watched && !o.minSample.given {
		options.MinSample = entity.DefaultMinSample
	}
	return options
}

// refuseForRetriesOnly names every option that would do nothing. Values that ask
// for nothing may stand there.
func (o *redriveOrder) refuseForRetriesOnly(action entity.RedriveAction) {
	for _, given := range []struct {
		name  string
		asked bool
	}{
		{"canary", o.canary.value != 0},
		{"canary_wait", o.canaryWait.given},
		{"max_failure_share", o.failureShare.value != 0},
		{"max_return_share", o.returnShare.value != 0},
		{"min_sample", o.minSample.given},
		{"keep_key_order", o.keepKeyOrder},
		{"requeue", o.requeue},
		{"patch", o.patch != nil},
	} {
		o.refuse(given.asked, given.name, "is for action retry, not for %s", action)
	}
}

func (o *redriveOrder) jsonPatch() []byte {
	if o.patch == nil {
		return nil
	}
	if _, err := payload.CompilePatch(o.patch); err != nil {
		o.note(err)
		return nil
	}
	return o.patch
}

func (o *redriveOrder) count(name string, n option[int], least int) int {
	o.refuse(n.given && (n.value < least || n.value > maxCount), name, "must be a whole number from %d to %d", least, maxCount)
	return n.value
}

func (o *redriveOrder) share(name string, share option[float64]) float64 {
	o.refuse(!(share.value >= 0 && share.value <= 1), name, "must be 0 to 1")
	return share.value
}

func (o *redriveOrder) wait() time.Duration {
	if !o.canaryWait.given {
		return 0
	}
	wait, err := time.ParseDuration(o.canaryWait.value)
	o.refuse(err != nil || wait < minCanaryWait || wait > maxCanaryWait, "canary_wait",
		"must be a duration such as 60s, from %s to 1h", minCanaryWait)
	return wait
}
