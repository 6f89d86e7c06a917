package deadletter

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Judge checks the original topics of messages against the declarations in the configuration and the mapping. It is
// safe for concurrent use.
type Judge struct {
	origins Origins
	mapping func(context.Context) (entity.Mapping, error)

	mu      sync.Mutex // guards the fields below
	decoder *Decoder   // decodes with the rules of the mapping whose version is in the next field
	version int64
	readAt  time.Time // when the mapping was read; zero when it has not been read

	now func() time.Time
}

// recently is the maximum age of the mapping when messages are only shown and not sent.
const recently = time.Second

// NewJudge returns a Judge. The decoder has the rules of the configuration; the function mapping returns the operators'
// rules.
func NewJudge(decoder *Decoder, origins Origins, mapping func(context.Context) (entity.Mapping, error)) *Judge {
	return &Judge{origins: origins, mapping: mapping, decoder: decoder, now: time.Now}
}

// Standing reads the mapping and returns a function that judges the original topic of a message. Only one goroutine at
// a time may call the returned function. Standing fails when the mapping cannot be read.
func (j *Judge) Standing(ctx context.Context) (func(*entity.Message) entity.OriginStanding, error) {
	at := j.now()
	m, err := j.mapping(ctx)
	if err != nil {
		return nil, fmt.Errorf("judge original topics: %w", err)
	}
	return j.judging(j.withRules(m, at)), nil
}

// Recent does the same as Standing, but may use a mapping that was read up to a second ago, so that most pages need no
// SQL statement for the mapping.
func (j *Judge) Recent(ctx context.Context) (func(*entity.Message) entity.OriginStanding, error) {
	if decoder := j.recent(); decoder != nil {
		return j.judging(decoder), nil
	}
	return j.Standing(ctx)
}

// recent returns the decoder with the rules of the mapping if they were read less than a second ago, otherwise nil.
func (j *Judge) recent() *Decoder {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.readAt.IsZero() || j.now().Sub(j.readAt) >= recently {
		return nil
	}
	return j.decoder
}

func (j *Judge) judging(decoder *Decoder) func(*entity.Message) entity.OriginStanding {
	claims := map[claim]entity.OriginStanding{}
	return func(m *entity.Message) entity.OriginStanding {
		if m.Source.Topic == "" || m.OriginalTopic == "" || m.Origin.Confidence == entity.FromOperator {
			// The original topic needs no declaration: an operator or a user of the database has set it, or it is not
			// known.
			return entity.OriginStanding{Declaration: entity.Declared}
		}
		c := claim{m.Source.Topic, m.OriginalTopic}
		standing, known := claims[c]
		if !known {
			standing = j.origins.judge(c, decoder.Mapped(c.dlqTopic))
			claims[c] = standing
		}
		return standing
	}
}

// withRules returns a decoder with the rules of the mapping m, which was read at the given time. It compiles each
// version of the rules only once. If one rule cannot be compiled, withRules ignores all rules of m.
func (j *Judge) withRules(m entity.Mapping, at time.Time) *Decoder {
	j.mu.Lock()
	defer j.mu.Unlock()
	decoder := j.decoder
	if m.Version != j.version {
		var err error
		if decoder, err = j.decoder.WithRules(m.Rules); err != nil {
			decoder, _ = j.decoder.WithRules(nil)
		}
	}
	if !at.Before(j.readAt) {
		j.decoder, j.version, j.readAt = decoder, m.Version, at
	}
	return decoder
}

// claim says that records of a dead-letter topic name an original topic; it is no claim of an attempt.
type claim struct{ dlqTopic, original string }

// judge compares the original topic in c with the declarations and with mapped, the topic to which the mapping maps the
// dead-letter topic ("" for none). A mapping declares its topic, and contradicts every other undeclared topic.
func (o Origins) judge(c claim, mapped string) entity.OriginStanding {
	found := o.Declaration(c.dlqTopic, c.original)
	switch {
	case mapped == c.original:
		found = entity.Declared
	case mapped != "" && found == entity.NotDeclared:
		found = entity.Contradicted
	}
	standing := entity.OriginStanding{Declaration: found}
	switch {
	case found == entity.Contradicted:
		standing.Undeclared = fmt.Sprintf("records of %s may not claim %s: kafka.origins and the mapping name other topics", c.dlqTopic, c.original)
	case found == entity.NotDeclared && o.declaredOnly:
		standing.Undeclared = fmt.Sprintf("neither kafka.origins nor a mapping says what records of %s may claim, and kafka.origin_trust is %s", c.dlqTopic, TrustDeclared)
	}
	return standing
}
