package rest

import (
	"context"
	"fmt"
	"net/http"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

const (
	maxRules   = 1000 // every incoming record is compared with each
	maxPattern = 1000 // characters
)

type ruleJSON struct {
	Pattern  string `json:"pattern"`
	Original string `json:"original"`
}

type unmappedJSON struct {
	DLQTopic string  `json:"dlq_topic"`
	Messages int64   `json:"messages"`
	Original *string `json:"original"`
}

type mappingJSON struct {
	Version    int64          `json:"version"`
	UpdatedAt  *string        `json:"updated_at"`
	UpdatedBy  *string        `json:"updated_by"`
	Rules      []ruleJSON     `json:"rules"`
	Configured []ruleJSON     `json:"configured"`
	Unmapped   []unmappedJSON `json:"unmapped"`
	Redrives   *[]uuid.UUID   `json:"redrives,omitempty"`
}

func (s *Server) getMappings(w http.ResponseWriter, r *http.Request) error {
	mapping, err := s.db.Mapping(r.Context())
	if err != nil {
		return err
	}
	unmapped, err := s.db.Unmapped(r.Context(), principalOf(r).Scope(auth.Viewer))
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, s.showMapping(mapping, unmapped))
	return nil
}

func (s *Server) showMapping(m entity.Mapping, unmapped []repository.UnmappedTopic) mappingJSON {
	showRule := func(rule entity.TopicRule) ruleJSON { return ruleJSON(rule) }
	return mappingJSON{
		Version: m.Version, UpdatedAt: stamp(m.UpdatedAt), UpdatedBy: orNull(m.UpdatedBy),
		Rules: each(m.Rules, showRule), Configured: each(s.dialects.ConfiguredRules(), showRule),
		Unmapped: each(unmapped, func(u repository.UnmappedTopic) unmappedJSON {
			return unmappedJSON{u.DLQTopic, u.Messages, orNull(s.mapped(m.Rules, u.DLQTopic))}
		}),
	}
}

// mapped returns "" for rows without a dead-letter topic.
func (s *Server) mapped(rules []entity.TopicRule, dlqTopic string) string {
	if dlqTopic == "" {
		return ""
	}
	return s.dialects.MapTopic(rules, dlqTopic)
}

type mappingOrder struct {
	version option[int64]
	rules   option[[]rawJSON]
	apply   bool
	problems
}

func (s *Server) replaceMappings(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), creationTime)
	defer cancel()
	r = r.WithContext(ctx)
	var o mappingOrder
	cause, err := s.readChange(w, r, fields{"version": &o.version, "rules": &o.rules, "apply": &o.apply})
	if err != nil {
		return err
	}
	rules, err := o.read(s.dialects)
	if err != nil {
		return err
	}
	mapping, err := s.db.ReplaceMapping(r.Context(), rules, o.version.value, cause)
	if err != nil {
		return err
	}
	_, _ = s.origins.Standing(r.Context()) // so that the next pages use the new rules
	unmapped, err := s.db.Unmapped(r.Context(), principalOf(r).Scope(auth.Viewer))
	if err != nil {
		return err
	}
	shown := s.showMapping(mapping, unmapped)
	ids := []uuid.UUID{}
	if o.apply {
		if ids, err = s.applyMapping(r.Context(), mapping.Rules, unmapped, cause); err != nil {
			return err
		}
	}
	shown.Redrives = &ids
	writeJSON(w, http.StatusOK, shown)
	return nil
}

func (o *mappingOrder) read(dialects Dialects) ([]entity.TopicRule, error) {
	o.refuse(!o.version.given || o.version.value < 0, "version", "must be the version that was read, 0 when there was none")
	o.refuse(!o.rules.given, "rules", "must be a list of rules, each with pattern and original")
	o.refuse(len(o.rules.value) > maxRules, "rules", "must be at most %d", maxRules)
	if len(o.problems) > 0 {
		return nil, joined(o.problems)
	}
	rules := make([]entity.TopicRule, 0, len(o.rules.value))
	for i, raw := range o.rules.value {
		var pattern, original string
		if err := decodeObjectAt(raw, fmt.Sprintf("rules[%d]", i), fields{"pattern": &pattern, "original": &original}); err != nil {
			o.note(err)
			continue
		}
		o.refuse(utf8.RuneCountInString(pattern) > maxPattern, fmt.Sprintf("rules[%d].pattern", i), "must have at most %d characters", maxPattern)
		rules = append(rules, entity.TopicRule{Pattern: pattern, Original: original})
	}
	if len(o.problems) == 0 {
		o.note(ruleProblems(dialects.CheckRules(rules)))
	}
	return rules, joined(o.problems)
}

// ruleProblems reports every fault of the rules as one of the request.
func ruleProblems(err error) error {
	if err == nil || len(fieldDetails(err)) > 0 {
		return err
	}
	return &entity.FieldError{Field: "rules", Reason: err.Error()}
}

// applyMapping sets the original topic of stored messages, by one redrive for each dead-letter topic that the rules
// map. A redrive's id is derived from the request's operation, so that a repeated request finds the redrives that it
// has already created.
func (s *Server) applyMapping(ctx context.Context, rules []entity.TopicRule, unmapped []repository.UnmappedTopic, cause entity.Cause) ([]uuid.UUID, error) {
	ids := []uuid.UUID{}
	request := cause.Operation
	for _, u := range unmapped {
		original := s.mapped(rules, u.DLQTopic)
		if original == "" {
			continue
		}
		if request != uuid.Nil {
			cause.Operation = uuid.NewSHA1(request, []byte(u.DLQTopic+"\x00"+original))
		}
		redrive, err := s.redriver.Begin(ctx, repository.NewRedrive{
			Action: entity.RedriveMap, Cause: cause, Options: entity.RedriveOptions{OriginalTopic: original},
			Selection: entity.Selection{Filter: entity.Filter{
				Topic: u.DLQTopic, UnknownOrigin: true, Visible: principalFrom(ctx).Scope(auth.Operator),
			}},
		})
		if err != nil {
			return nil, err
		}
		ids = append(ids, redrive.ID)
	}
	return ids, nil
}
