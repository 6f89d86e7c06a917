package admin

import (
	"context"
	"fmt"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/access"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/request"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
	"github.com/dlq-manager/dlq-manager/pkg/rest/wire"
)

const (
	maxRules   = 1000 // maximum number of rules, because ingest compares every incoming record with each rule
	maxPattern = 1000 // longest pattern, in characters
)

// creationTime limits a change of the mapping, including the creation of its redrives, and the preview of a redirect.
const creationTime = 2 * time.Minute

// Mappings shows and replaces the topic mapping.
type Mappings struct {
	Database repository.Mappings
	Redriver Redriver
	Origins  Origins
	Dialects Dialects
	Bodies   request.Bodies
}

// Redriver creates redrives, and predicts what they would do.
type Redriver interface {
	Begin(ctx context.Context, order repository.NewRedrive) (entity.Redrive, error)
	Preview(ctx context.Context, order repository.NewRedrive) (entity.Preview, error)
}

// Origins checks the original topics of messages against the current mapping.
type Origins interface {
	Standing(ctx context.Context) (func(*entity.Message) entity.OriginStanding, error)
}

// Dialects maps dead-letter topics by rules.
type Dialects interface {
	// CheckRules reports every rule that cannot work.
	CheckRules(rules []entity.TopicRule) error

	// MapTopic returns the original topic of a dead-letter topic by these rules, then by the configured rules; "" for
	// none.
	MapTopic(rules []entity.TopicRule, dlqTopic string) string

	// ConfiguredRules returns the rules of the configuration, in their order.
	ConfiguredRules() []entity.TopicRule
}

// Get sends the topic mapping.
func (h Mappings) Get(w http.ResponseWriter, r *http.Request) error {
	mapping, err := h.Database.Mapping(r.Context())
	if err != nil {
		return err
	}
	unmapped, err := h.Database.Unmapped(r.Context(), access.Principal(r).Scope(auth.Viewer))
	if err != nil {
		return err
	}
	respond.JSON(w, http.StatusOK, h.show(mapping, unmapped))
	return nil
}

func (h Mappings) show(m entity.Mapping, unmapped []repository.UnmappedTopic) wire.Mapping {
	showRule := func(rule entity.TopicRule) wire.MappingRule { return wire.MappingRule(rule) }
	return wire.Mapping{
		Version: m.Version, UpdatedAt: wire.Stamp(m.UpdatedAt), UpdatedBy: wire.OrNull(m.UpdatedBy),
		Rules: wire.Each(m.Rules, showRule), Configured: wire.Each(h.Dialects.ConfiguredRules(), showRule),
		Unmapped: wire.Each(unmapped, func(u repository.UnmappedTopic) wire.UnmappedTopic {
			return wire.UnmappedTopic{DLQTopic: u.DLQTopic, Messages: u.Messages, Original: wire.OrNull(h.mapped(m.Rules, u.DLQTopic))}
		}),
	}
}

// mapped returns the original topic to which the rules map a dead-letter topic. Messages without a dead-letter topic
// have dlqTopic "", for which mapped returns "".
func (h Mappings) mapped(rules []entity.TopicRule, dlqTopic string) string {
	if dlqTopic == "" {
		return ""
	}
	return h.Dialects.MapTopic(rules, dlqTopic)
}

type mappingOrder struct {
	version request.Option[int64]
	rules   request.Option[[]request.RawJSON]
	apply   bool
	dryRun  bool
	request.Problems
}

// Replace replaces the rules of the mapping. If the request asks for it, Replace also applies the rules to stored
// messages. A dry run changes nothing, and says how many stored messages the rules would map.
func (h Mappings) Replace(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), creationTime)
	defer cancel()
	r = r.WithContext(ctx)
	var o mappingOrder
	cause, err := h.Bodies.ReadChange(w, r, request.Fields{"version": &o.version, "rules": &o.rules, "apply": &o.apply, "dry_run": &o.dryRun})
	if err != nil {
		return err
	}
	rules, err := o.read(h.Dialects)
	if err != nil {
		return err
	}
	if o.dryRun {
		return h.preview(w, r, rules, o.version.Value)
	}
	mapping, err := h.Database.ReplaceMapping(r.Context(), rules, o.version.Value, cause)
	if err != nil {
		return err
	}
	_, _ = h.Origins.Standing(r.Context()) // makes Origins read the new rules now, so that the pages that follow use them
	unmapped, err := h.Database.Unmapped(r.Context(), access.Principal(r).Scope(auth.Viewer))
	if err != nil {
		return err
	}
	shown := h.show(mapping, unmapped)
	ids := []uuid.UUID{}
	if o.apply {
		if ids, err = h.apply(r.Context(), mapping.Rules, unmapped, cause); err != nil {
			return err
		}
	}
	shown.Redrives = &ids
	respond.JSON(w, http.StatusOK, shown)
	return nil
}

// preview answers a dry run. It refuses another version of the mapping than the expected one.
func (h Mappings) preview(w http.ResponseWriter, r *http.Request, rules []entity.TopicRule, expected int64) error {
	mapping, err := h.Database.Mapping(r.Context())
	if err != nil {
		return err
	}
	if mapping.Version != expected {
		return &entity.MappingConflictError{Version: mapping.Version}
	}
	unmapped, err := h.Database.Unmapped(r.Context(), access.Principal(r).Scope(auth.Viewer))
	if err != nil {
		return err
	}
	shown := h.show(mapping, unmapped)
	previews := []wire.MappingPreview{}
	for _, order := range h.orders(r.Context(), rules, unmapped) {
		preview, err := h.Redriver.Preview(r.Context(), order)
		if err != nil {
			return err
		}
		previews = append(previews, wire.NewMappingPreview(order, preview))
	}
	shown.Preview = &previews
	respond.JSON(w, http.StatusOK, shown)
	return nil
}

func (o *mappingOrder) read(dialects Dialects) ([]entity.TopicRule, error) {
	o.Refuse(!o.version.Given || o.version.Value < 0, "version", "must be the version that was read, 0 when there was none")
	o.Refuse(!o.rules.Given, "rules", "must be a list of rules, each with pattern and original")
	o.Refuse(len(o.rules.Value) > maxRules, "rules", "must be at most %d", maxRules)
	if len(o.Problems) > 0 {
		return nil, o.Err()
	}
	rules := make([]entity.TopicRule, 0, len(o.rules.Value))
	for i, raw := range o.rules.Value {
		var pattern, original string
		if err := request.DecodeObjectAt(raw, fmt.Sprintf("rules[%d]", i), request.Fields{"pattern": &pattern, "original": &original}); err != nil {
			o.Add(err)
			continue
		}
		o.Refuse(utf8.RuneCountInString(pattern) > maxPattern, fmt.Sprintf("rules[%d].pattern", i), "must have at most %d characters", maxPattern)
		rules = append(rules, entity.TopicRule{Pattern: pattern, Original: original})
	}
	if len(o.Problems) == 0 {
		o.Add(ruleProblems(dialects.CheckRules(rules)))
	}
	return rules, o.Err()
}

// ruleProblems converts the faults of rules to an error about the field rules of the request, unless they name fields
// already.
func ruleProblems(err error) error {
	if err == nil || len(respond.FieldDetails(err)) > 0 {
		return err
	}
	return &entity.FieldError{Field: "rules", Reason: err.Error()}
}

// orders returns the redrives that set the original topic of stored messages, one for each unmapped dead-letter topic
// that the rules, or the configured rules, map.
func (h Mappings) orders(ctx context.Context, rules []entity.TopicRule, unmapped []repository.UnmappedTopic) []repository.NewRedrive {
	var orders []repository.NewRedrive
	for _, u := range unmapped {
		original := h.mapped(rules, u.DLQTopic)
		if original == "" {
			continue
		}
		orders = append(orders, repository.NewRedrive{
			Action: entity.RedriveMap, Options: entity.RedriveOptions{OriginalTopic: original},
			Selection: entity.Selection{Filter: entity.Filter{
				Topic: u.DLQTopic, UnknownOrigin: true, Visible: access.PrincipalFrom(ctx).Scope(auth.Operator),
			}},
		})
	}
	return orders
}

// apply begins the redrives. A redrive's id is derived from the request's operation, so that a request that is repeated
// with its Idempotency-Key finds the redrives that it has already created.
func (h Mappings) apply(ctx context.Context, rules []entity.TopicRule, unmapped []repository.UnmappedTopic, cause entity.AuditInfo) ([]uuid.UUID, error) {
	ids := []uuid.UUID{}
	request := cause.Operation
	for _, order := range h.orders(ctx, rules, unmapped) {
		if request != uuid.Nil {
			cause.Operation = uuid.NewSHA1(request, []byte(order.Selection.Topic+"\x00"+order.Options.OriginalTopic))
		}
		order.Cause = cause
		redrive, err := h.Redriver.Begin(ctx, order)
		if err != nil {
			return nil, err
		}
		ids = append(ids, redrive.ID)
	}
	return ids, nil
}
