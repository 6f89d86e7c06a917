package redrives

import (
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/request"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
)

// The limits of a redrive's options.
const (
	maxCount      = 1_000_000
	minRate       = 0.001
	maxRate       = 1_000_000
	minCanaryWait = time.Second
	maxCanaryWait = time.Hour
)

type redriveOrder struct {
	action, canaryWait, originalTopic request.Option[string]
	ids                               request.Option[[]string]
	canary, minSample                 request.Option[int]
	rate, failureShare, returnShare   request.Option[float64]
	dryRun, archived                  bool
	filtered, keepKeyOrder, requeue   bool // filtered: the request has a filter
	acceptEnvelope                    bool
	filter                            request.FilterOrder
	patch                             request.RawJSON
	schema                            request.Option[string]
	request.Problems
}

func (h Redrives) readOrder(w http.ResponseWriter, r *http.Request) (order repository.NewRedrive, dryRun bool, err error) {
	o := redriveOrder{filter: request.NewFilterOrder()}
	cause, err := h.Bodies.ReadChange(w, r, request.Fields{
		"action": &o.action, "dry_run": &o.dryRun, "ids": &o.ids, "archived": &o.archived,
		"canary": &o.canary, "canary_wait": &o.canaryWait, "rate": &o.rate,
		"max_failure_share": &o.failureShare, "max_return_share": &o.returnShare, "min_sample": &o.minSample,
		"keep_key_order": &o.keepKeyOrder, "requeue": &o.requeue, "accept_envelope": &o.acceptEnvelope,
		"filter": request.Object{Given: &o.filtered, Fields: o.filter.Fields()}, "original_topic": &o.originalTopic, "patch": &o.patch, "schema": &o.schema,
	})
	if err != nil {
		return order, false, err
	}
	order = repository.NewRedrive{Action: o.redriveAction(), Cause: cause, Selection: o.selection()}
	order.Options = o.options(order.Action)
	order.Selection.Archived = o.archived
	o.checkArchived(order)
	return order, o.dryRun, o.Err()
}

func (o *redriveOrder) redriveAction() entity.RedriveAction {
	action := entity.RedriveAction(o.action.Value)
	if !o.action.Given {
		return entity.RedriveRetry
	}
	if o.Refuse(!slices.Contains(redriveActions, action), "action", "%s", request.OneOf(redriveActions)) {
		return ""
	}
	return action
}

var redriveActions = []entity.RedriveAction{
	entity.RedriveRetry, entity.RedriveRequeue, entity.RedriveDead, entity.RedriveDelete, entity.RedriveMap,
	entity.RedriveRestore,
}

// checkArchived refuses an action that does not fit the place of the messages: the archive, or the live table.
func (o *redriveOrder) checkArchived(order repository.NewRedrive) {
	if !o.archived {
		o.Refuse(order.Action == entity.RedriveRestore, "archived", "must be true for action restore")
		return
	}
	allowed := entity.ArchivedActions()
	o.Refuse(order.Action != "" && !slices.Contains(allowed, order.Action), "action", "%s, for archived messages", request.OneOf(allowed))
	o.Refuse(o.requeue, "requeue", "is not for archived messages, which are PENDING once they are restored")
	o.Refuse(order.Action == entity.RedriveDelete && !o.dryRun && order.Cause.Reason == "", "reason", "is needed to erase messages")
}

func (o *redriveOrder) selection() entity.Selection {
	if o.Refuse(o.ids.Given == o.filtered, "ids", "give either ids or filter") {
		return entity.Selection{}
	}
	if o.ids.Given {
		return entity.Selection{IDs: o.messageIDs()}
	}
	return o.filterSelection()
}

func (o *redriveOrder) messageIDs() []uuid.UUID {
	n := len(o.ids.Value)
	if o.Refuse(n == 0 || n > entity.MaxSelectedIDs, "ids", "must be 1 to %d ids, are %d", entity.MaxSelectedIDs, n) {
		return nil
	}
	ids := make([]uuid.UUID, 0, n)
	for i, text := range o.ids.Value {
		id, ok := request.CanonicalID(text)
		if o.Refuse(!ok, "ids", "number %d is not the id of a message: %s", i, respond.Clip(text)) {
			return nil
		}
		ids = append(ids, id)
	}
	return ids
}

func (o *redriveOrder) filterSelection() entity.Selection {
	selection := entity.Selection{Filter: o.filter.Read("filter.", &o.Problems)}
	if len(o.Problems) > 0 {
		return selection // a condition that could not be read is missing in the filter, so the check below could refuse a request for the wrong reason
	}
	o.RefuseSlowWords("filter.", selection.Filter)
	o.Refuse(selection.Empty(), "filter",
		"must have a condition other than times and statuses, otherwise it would select every message")
	return selection
}

func (o *redriveOrder) options(action entity.RedriveAction) entity.RedriveOptions {
	if action != entity.RedriveRetry && action != "" {
		o.refuseForRetriesOnly(action)
	}
	mapping := action == entity.RedriveMap
	o.Refuse(mapping && !entity.ValidTopic(o.originalTopic.Value), "original_topic", "must be the name of a topic, for action map")
	o.Refuse(!mapping && action != "" && o.originalTopic.Given, "original_topic", "is for action map, not for %s", action)
	options := entity.RedriveOptions{
		Canary: o.count("canary", o.canary, 0), Rate: o.rate.Value,
		MaxFailureShare: o.share("max_failure_share", o.failureShare),
		MaxReturnShare:  o.share("max_return_share", o.returnShare), MinSample: o.count("min_sample", o.minSample, 1),
		KeepKeyOrder: o.keepKeyOrder, Requeue: o.requeue, AcceptEnvelope: o.acceptEnvelope, OriginalTopic: o.originalTopic.Value, Patch: o.jsonPatch(),
		Schema: o.schemaChoice(),
	}
	o.Refuse(o.rate.Given && !(o.rate.Value >= minRate && o.rate.Value <= maxRate), "rate",
		"must be %v to %d messages a second", minRate, maxRate)
	if options.CanaryWait = o.wait(); options.Canary > 0 && !o.canaryWait.Given {
		options.CanaryWait = entity.DefaultCanaryWait
	}
	watched := options.MaxFailureShare > 0 || options.MaxReturnShare > 0
	o.Refuse(o.canaryWait.Given && options.Canary == 0 && !options.Bounded(), "canary_wait", "needs canary or max_return_share")
	o.Refuse(o.minSample.Given && !watched, "min_sample", "needs max_failure_share or max_return_share")
	if watched && !o.minSample.Given {
		options.MinSample = entity.DefaultMinSample
	}
	return options
}

// refuseForRetriesOnly refuses the options that only the action retry has. It accepts some of them with their default.
func (o *redriveOrder) refuseForRetriesOnly(action entity.RedriveAction) {
	retries := func(asked bool, name string) { o.Refuse(asked, name, "is for action retry, not for %s", action) }
	retries(o.canary.Value != 0, "canary")
	retries(o.canaryWait.Given, "canary_wait")
	retries(o.failureShare.Value != 0, "max_failure_share")
	retries(o.returnShare.Value != 0, "max_return_share")
	retries(o.minSample.Given, "min_sample")
	retries(o.keepKeyOrder, "keep_key_order")
	retries(o.requeue, "requeue")
	retries(o.acceptEnvelope, "accept_envelope")
	retries(o.patch != nil, "patch")
	retries(o.schema.Given, "schema")
}

func (o *redriveOrder) jsonPatch() []byte {
	if o.patch == nil {
		return nil
	}
	if _, err := payload.CompilePatch(o.patch); err != nil {
		o.Add(err)
		return nil
	}
	return o.patch
}

func (o *redriveOrder) schemaChoice() entity.SchemaChoice {
	o.Refuse(o.schema.Given && o.patch == nil, "schema", "needs a patch: without one each record is sent unchanged")
	choice, ok := request.SchemaChoice(o.schema)
	o.Refuse(!ok, "schema", request.SchemaChoices)
	return choice
}

func (o *redriveOrder) count(name string, n request.Option[int], least int) int {
	o.Refuse(n.Given && (n.Value < least || n.Value > maxCount), name, "must be a whole number from %d to %d", least, maxCount)
	return n.Value
}

func (o *redriveOrder) share(name string, share request.Option[float64]) float64 {
	o.Refuse(!(share.Value >= 0 && share.Value <= 1), name, "must be 0 to 1")
	return share.Value
}

func (o *redriveOrder) wait() time.Duration {
	if !o.canaryWait.Given {
		return 0
	}
	wait, err := time.ParseDuration(o.canaryWait.Value)
	o.Refuse(err != nil || wait < minCanaryWait || wait > maxCanaryWait, "canary_wait",
		"must be a duration such as 60s, from %s to 1h", minCanaryWait)
	return wait
}
