package rest

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// The limits of a redrive's options.
const (
	maxCount      = 1_000_000
	minRate       = 0.001
	maxRate       = 1_000_000
	minCanaryWait = time.Second
	maxCanaryWait = time.Hour

	// maxFilterText limits the texts of a filter.
	maxFilterText = 1000
)

func joined(p problems) error { return errors.Join(p...) }

type redriveOrder struct {
	action, canaryWait, originalTopic       option[string]
	ids                                     option[[]string]
	canary, minSample                       option[int]
	rate, failureShare, returnShare         option[float64]
	dryRun, filtered, keepKeyOrder, requeue bool // filtered: the filter is given
	filter                                  filterOrder
	patch                                   rawJSON
	problems
}

// problems collects all faults of a request, so that one answer reports them.
type problems []error

func (p *problems) note(err error) {
	if err != nil {
		*p = append(*p, err)
	}
}

// refuse adds a problem of a field when bad is true, and returns bad.
func (p *problems) refuse(bad bool, field, format string, args ...any) bool {
	if bad {
		*p = append(*p, &entity.FieldError{Field: field, Reason: fmt.Sprintf(format, args...)})
	}
	return bad
}

func (s *Server) readOrder(w http.ResponseWriter, r *http.Request) (order repository.NewRedrive, dryRun bool, err error) {
	o := redriveOrder{filter: newFilterOrder()}
	cause, err := s.readChange(w, r, fields{
		"action": &o.action, "dry_run": &o.dryRun, "ids": &o.ids,
		"canary": &o.canary, "canary_wait": &o.canaryWait, "rate": &o.rate,
		"max_failure_share": &o.failureShare, "max_return_share": &o.returnShare, "min_sample": &o.minSample,
		"keep_key_order": &o.keepKeyOrder, "requeue": &o.requeue,
		"filter": object{&o.filtered, o.filter.fields()}, "original_topic": &o.originalTopic, "patch": &o.patch,
	})
	if err != nil {
		return order, false, err
	}
	order = repository.NewRedrive{Action: o.redriveAction(), Cause: cause, Selection: o.selection()}
	order.Options = o.options(order.Action)
	return order, o.dryRun, joined(o.problems)
}

func (o *redriveOrder) redriveAction() entity.RedriveAction {
	action := entity.RedriveAction(o.action.value)
	if !o.action.given {
		return entity.RedriveRetry
	}
	if o.refuse(!slices.Contains(redriveActions, action), "action", "%s", oneOf(redriveActions)) {
		return ""
	}
	return action
}

var redriveActions = []entity.RedriveAction{
	entity.RedriveRetry, entity.RedriveRequeue, entity.RedriveDead, entity.RedriveDelete, entity.RedriveMap,
}

func (o *redriveOrder) selection() entity.Selection {
	if o.refuse(o.ids.given == o.filtered, "ids", "give either ids or filter") {
		return entity.Selection{}
	}
	if o.ids.given {
		return entity.Selection{IDs: o.messageIDs()}
	}
	return o.filterSelection()
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

func (o *redriveOrder) filterSelection() entity.Selection {
	selection := entity.Selection{Filter: o.filter.read("filter.", &o.problems)}
	if len(o.problems) > 0 {
		return selection // the missing condition may be one that could not be read
	}
	o.refuse(selection.Empty(), "filter",
		"must have a condition other than times and statuses, otherwise it would select every message")
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
		Canary: o.count("canary", o.canary, 0), Rate: o.rate.value,
		MaxFailureShare: o.share("max_failure_share", o.failureShare),
		MaxReturnShare:  o.share("max_return_share", o.returnShare), MinSample: o.count("min_sample", o.minSample, 1),
		KeepKeyOrder: o.keepKeyOrder, Requeue: o.requeue, OriginalTopic: o.originalTopic.value, Patch: o.jsonPatch(),
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

// refuseForRetriesOnly refuses every option that has no effect on the action, unless its value is the default.
func (o *redriveOrder) refuseForRetriesOnly(action entity.RedriveAction) {
	retries := func(asked bool, name string) { o.refuse(asked, name, "is for action retry, not for %s", action) }
	retries(o.canary.value != 0, "canary")
	retries(o.canaryWait.given, "canary_wait")
	retries(o.failureShare.value != 0, "max_failure_share")
	retries(o.returnShare.value != 0, "max_return_share")
	retries(o.minSample.given, "min_sample")
	retries(o.keepKeyOrder, "keep_key_order")
	retries(o.requeue, "requeue")
	retries(o.patch != nil, "patch")
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
