package deadletter

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

func TestOrigins_Declaration(t *testing.T) {
	t.Parallel()
	o := check.Must(NewOrigins(Config{Origins: []OriginRule{
		{DLQ: "*.dlq.v1", Originals: []string{"$1.*"}},
		{DLQ: "shared.dlq.v1", Originals: []string{"orders", "billing.*"}},
		{DLQ: "*.from.*.dlq", Originals: []string{"${2}.${1}"}},
	}}))(t)
	for _, c := range []struct {
		dlq, original string
		want          entity.Declaration
	}{
		{"gamma.dlq.v1", "gamma.events.v1", entity.Declared},
		{"gamma.dlq.v1", "beta.events.v1", entity.Contradicted},
		{"gamma.dlq.v1", "gamma", entity.Contradicted},
		{"gamma.dlq.v1", "gamma.", entity.Contradicted},
		{"gamma.dlq.v1", "xgamma.events.v1", entity.Contradicted},
		{"gamma.dlq.v1", "Gamma.events.v1", entity.Contradicted},
		{"a.b.dlq.v1", "a.b.events", entity.Declared},
		{"a.b.dlq.v1", "a.c.events", entity.Contradicted},
		{"shared.dlq.v1", "shared.events", entity.Declared},
		{"shared.dlq.v1", "orders", entity.Declared},
		{"shared.dlq.v1", "billing.events", entity.Declared},
		{"shared.dlq.v1", "beta.events.v1", entity.Contradicted},
		{"x.from.y.dlq", "y.x", entity.Declared},
		{"x.from.y.dlq", "x.y", entity.Contradicted},
		{"gamma-dlt", "beta.events.v1", entity.NotDeclared},
		{"", "beta.events.v1", entity.NotDeclared},
	} {
		check.Equal(t, o.Declaration(c.dlq, c.original), c.want, "Declaration(%q, %q)", c.dlq, c.original)
	}
}

func TestOrigins_WrongFieldsAreNamed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cfg  Config
		want string
	}{
		"Trust":              {Config{OriginTrust: "nobody"}, "kafka.origin_trust"},
		"NoTopic":            {Config{Origins: []OriginRule{{Originals: []string{"a"}}}}, "kafka.origins[0].dlq"},
		"RegularExpression":  {Config{Origins: []OriginRule{{DLQ: "^a$", Originals: []string{"a"}}}}, "kafka.origins[0].dlq"},
		"NoOriginals":        {Config{Origins: []OriginRule{{DLQ: "a"}}}, "kafka.origins[0].originals"},
		"UnknownGroup":       {Config{Origins: []OriginRule{{DLQ: "*", Originals: []string{"ok", "$2"}}}}, "kafka.origins[0].originals[1]"},
		"NotAGlob":           {Config{Origins: []OriginRule{{DLQ: "*", Originals: []string{"a b"}}}}, "kafka.origins[0].originals[0]"},
		"OriginalExpression": {Config{Origins: []OriginRule{{DLQ: "*", Originals: []string{"^.*$"}}}}, "kafka.origins[0].originals[0]"},
		"PointerTopics":      {Config{PointerTopics: []string{"fine", "^("}}, "kafka.pointer_topics[1]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := c.cfg.Validate()
			check.True(t, errors.Is(err, entity.ErrInvalid) && strings.Contains(err.Error(), c.want+":"),
				"Validate = %v, want %s named", err, c.want)
		})
	}
}

// judged returns what a Judge with these declarations says about a message in the topic gamma.dlq.v1. An operator's
// rule maps this topic to the topic in the parameter mapped.
func judged(t *testing.T, cfg Config, mapped string, m entity.Message) entity.OriginStanding {
	t.Helper()
	origins := check.Must(NewOrigins(cfg))(t)
	decoder := check.Must(New(cfg, Patterns{}))(t)
	mapping := entity.Mapping{Version: 1}
	if mapped != "" {
		mapping.Rules = []entity.TopicRule{{Pattern: "gamma.dlq.v1", Original: mapped}}
	}
	judge := NewJudge(decoder, origins, func(context.Context) (entity.Mapping, error) { return mapping, nil })
	standing := check.Must(judge.Standing(t.Context()))(t)
	first, second := standing(&m), standing(&m)
	check.True(t, first == second, "judged as %+v and then as %+v", first, second)
	return standing(&m)
}

func TestJudge(t *testing.T) {
	t.Parallel()
	const beta, gamma = "beta.events.v1", "gamma.events.v1"
	byName := []OriginRule{{DLQ: "*.dlq.v1", Originals: []string{"$1.*"}}}
	for name, c := range map[string]struct {
		cfg        Config
		mapped     string
		original   string
		confidence entity.Confidence
		want       entity.Declaration
		undeclared bool
	}{
		"HeaderIsTrusted":           {Config{}, "", beta, entity.FromHeader, entity.NotDeclared, false},
		"HeaderIsNotTrusted":        {Config{OriginTrust: TrustDeclared}, "", beta, entity.FromHeader, entity.NotDeclared, true},
		"NameIsNotTrusted":          {Config{OriginTrust: TrustDeclared}, "", gamma, entity.FromName, entity.NotDeclared, true},
		"Declared":                  {Config{Origins: byName, OriginTrust: TrustDeclared}, "", gamma, entity.FromHeader, entity.Declared, false},
		"Contradicts":               {Config{Origins: byName}, "", beta, entity.FromHeader, entity.Contradicted, true},
		"MappingDeclares":           {Config{Origins: byName, OriginTrust: TrustDeclared}, beta, beta, entity.FromHeader, entity.Declared, false},
		"MappingDeclaresNoOther":    {Config{}, gamma, beta, entity.FromHeader, entity.Contradicted, true},
		"MappingBesideADeclaration": {Config{Origins: byName}, beta, gamma, entity.FromHeader, entity.Declared, false},
		"MappingThatIsGone":         {Config{OriginTrust: TrustDeclared}, "", beta, entity.FromMapping, entity.NotDeclared, true},
		"OperatorSaidSo":            {Config{Origins: byName, OriginTrust: TrustDeclared}, gamma, beta, entity.FromOperator, entity.Declared, false},
		"ConfiguredMappingDeclares": {Config{TopicMap: []MapRule{{"*.dlq.v1", "$1.events.v1"}}, OriginTrust: TrustDeclared}, "", gamma, entity.FromMapping, entity.Declared, false},
		"NothingToJudge":            {Config{OriginTrust: TrustDeclared}, "", "", entity.FromNothing, entity.Declared, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := entity.Message{OriginalTopic: c.original, Source: entity.Source{Topic: "gamma.dlq.v1"}, Origin: entity.Origin{Confidence: c.confidence}}
			got := judged(t, c.cfg, c.mapped, m)
			check.True(t, got.Declaration == c.want && (got.Undeclared != "") == c.undeclared,
				"judged as %+v, want declaration %d, undeclared %t", got, c.want, c.undeclared)
		})
	}

	t.Run("RowsOfTheDatabaseAreDeclared", func(t *testing.T) {
		t.Parallel()
		got := judged(t, Config{OriginTrust: TrustDeclared}, "", entity.Message{OriginalTopic: beta})
		check.True(t, got.Declared() && got.Undeclared == "", "judged as %+v, want declared", got)
	})
}

// Standing reads the mapping at each call, and so notices every change.
func TestJudge_FollowsTheMapping(t *testing.T) {
	t.Parallel()
	decoder := check.Must(New(Config{}, Patterns{}))(t)
	origins := check.Must(NewOrigins(Config{OriginTrust: TrustDeclared}))(t)
	var mapping entity.Mapping
	var failure error
	judge := NewJudge(decoder, origins, func(context.Context) (entity.Mapping, error) { return mapping, failure })
	m := entity.Message{OriginalTopic: "orders", Source: entity.Source{Topic: "gamma.dlq.v1"}}
	rules := []entity.TopicRule{{Pattern: "*.dlq.v1", Original: "orders"}}
	for i, step := range []struct {
		mapping entity.Mapping
		want    entity.Declaration
	}{
		{entity.Mapping{}, entity.NotDeclared},
		{entity.Mapping{Version: 1, Rules: rules}, entity.Declared},
		{entity.Mapping{Version: 2}, entity.NotDeclared},
	} {
		mapping = step.mapping
		standing := check.Must(judge.Standing(t.Context()))(t)
		check.Equal(t, standing(&m).Declaration, step.want, "step %d: judgement", i)
	}
	failure = entity.ErrUnavailable
	check.Is(t, check.Err(judge.Standing(t.Context())), entity.ErrUnavailable, "Standing without the mapping")
}

// Recent reads the mapping at most once a second, and so uses a changed mapping after a second at the latest.
func TestJudgeRecent(t *testing.T) {
	t.Parallel()
	decoder := check.Must(New(Config{}, Patterns{}))(t)
	origins := check.Must(NewOrigins(Config{OriginTrust: TrustDeclared}))(t)
	reads, mapping := 0, entity.Mapping{}
	judge := NewJudge(decoder, origins, func(context.Context) (entity.Mapping, error) {
		reads++
		return mapping, nil
	})
	clock := time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)
	judge.now = func() time.Time { return clock }
	m := entity.Message{OriginalTopic: "orders", Source: entity.Source{Topic: "gamma.dlq.v1"}}
	judged := func(how func(context.Context) (func(*entity.Message) entity.OriginStanding, error), want entity.Declaration, wantReads int) {
		t.Helper()
		standing := check.Must(how(t.Context()))(t)
		if got := standing(&m).Declaration; got != want || reads != wantReads {
			t.Errorf("judged as %d after %d reads of the mapping, want %d after %d", got, reads, want, wantReads)
		}
	}
	judged(judge.Recent, entity.NotDeclared, 1)
	mapping = entity.Mapping{Version: 1, Rules: []entity.TopicRule{{Pattern: "*.dlq.v1", Original: "orders"}}}
	clock = clock.Add(recently - 1)
	judged(judge.Recent, entity.NotDeclared, 1)
	clock = clock.Add(1)
	judged(judge.Recent, entity.Declared, 2)
	mapping = entity.Mapping{Version: 2}
	// After a call of Standing, Recent uses the mapping that Standing has read.
	judged(judge.Standing, entity.NotDeclared, 3)
	judged(judge.Recent, entity.NotDeclared, 3)
}

func TestMayDeclare(t *testing.T) {
	t.Parallel()
	cfg := Config{
		Origins:  []OriginRule{{DLQ: "*.dlq.v1", Originals: []string{"$1.events", "billing.*"}}},
		TopicMap: []MapRule{{"legacy.dlq", "legacy"}},
	}
	for pattern, want := range map[string]bool{
		"orders.events": true, "*.events": true, "billing.x": true, "billing.*": true, "legacy": true, "^anything$": true, "*": true,
		"orders": false, "orders.*.v2": false,
	} {
		check.Equal(t, MayDeclare(cfg, pattern), want, "MayDeclare(%q)", pattern)
	}
	check.True(t, !MayDeclare(Config{}, "orders"), "without declarations orders may be declared")
}
