package schema

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/schema/internal/codec"
)

// cacheSize is the maximum size in bytes of all schemas in memory, of all registries together.
const cacheSize = 64 << 20

// Decoder decodes and encodes keys and values. A nil Decoder decodes nothing. It is safe for concurrent use.
type Decoder struct {
	cfg        Config
	registries []*registry
	topics     map[topicPart]TopicConfig
	watch      *maskWatch // nil: nothing is watched
}

type topicPart struct {
	topic string
	part  entity.RecordPart
}

// New returns a Decoder for a configuration that Validate accepts; nil when the configuration names no registry. New
// sends no request. It registers the Decoder's metrics with reg.
func New(cfg Config, reg prometheus.Registerer) (*Decoder, error) {
	if len(cfg.Registries) == 0 {
		return nil, nil //nolint:nilnil // a nil Decoder decodes nothing
	}
	d := &Decoder{cfg: cfg, topics: map[topicPart]TopicConfig{}}
	lookups := promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
		Name: "dlq_schema_lookups_total",
		Help: "Requests to schema registries, by result: found, unknown (404), refused (another 4xx, or an answer that is too large: " +
			"the others are not affected), busy (408 or 429) or failed (5xx, 401, 407, no answer or none that is valid).",
	}, []string{"registry", "result"})
	shared, compiler := newCache(cacheSize), newCompiler()
	for _, c := range cfg.Registries {
		r, err := newRegistry(cfg, c, shared, compiler, lookups)
		if err != nil {
			return nil, err
		}
		promauto.With(reg).NewGaugeFunc(prometheus.GaugeOpts{
			Name: "dlq_schema_registry_down", ConstLabels: prometheus.Labels{"registry": c.Name},
			Help: "1 while a schema registry counts as down and gets one question every 5 seconds, otherwise 0.",
		}, r.health.down)
		d.registries = append(d.registries, r)
	}
	for _, t := range cfg.Topics {
		d.topics[topicPart{t.Topic, entity.RecordPart(cmp.Or(t.Part, string(entity.ValuePart)))}] = t
	}
	return d, nil
}

// Version returns a hash of the settings that influence decoded values; 0 for a nil Decoder.
func (d *Decoder) Version() uint64 {
	if d == nil {
		return 0
	}
	h := sha256.New()
	fmt.Fprintf(h, "max_bytes %d\n", d.cfg.MaxBytes)
	for _, r := range d.cfg.Registries {
		fmt.Fprintf(h, "registry %q %q %q\n", r.Name, r.URL, r.Topics)
	}
	for _, t := range d.cfg.Topics {
		fmt.Fprintf(h, "topic %q %q %q %q\n", t.Topic, t.Part, t.Registry, t.Subject)
	}
	return binary.BigEndian.Uint64(h.Sum(nil))
}

// part is the key or the value of a record, with the registry and the subject in which its schema is found.
type part struct {
	frame
	registry asker
	subject  string // subject for a topic whose records do not name their schema; "" when the frame names the schema
	kind     entity.RecordPart
}

// part returns the part of a message that kind names; ok is false when the part has no schema.
func (d *Decoder) part(m *entity.Message, kind entity.RecordPart) (p part, ok bool) {
	if d == nil || bytesOf(&m.Record, kind) == nil {
		return p, false
	}
	for _, topic := range []string{m.OriginalTopic, m.Source.Topic} {
		t, configured := d.topics[topicPart{topic, kind}]
		if !configured {
			continue
		}
		data := bytesOf(&m.Record, kind)
		return part{frame: frame{data: data, unframed: true}, registry: asker{d.named(t.Registry), m.Source.Topic}, subject: t.Subject, kind: kind}, true
	}
	f, framed := frameOf(&m.Record, kind)
	if !framed {
		return p, false
	}
	r := d.of(m)
	return part{frame: f, registry: asker{r, m.Source.Topic}, kind: kind}, r != nil
}

func (d *Decoder) named(name string) *registry {
	for _, r := range d.registries {
		if r.cfg.Name == name {
			return r
		}
	}
	return nil
}

// of returns the registry that has the schemas of the message's topics; nil when no registry is configured for them.
func (d *Decoder) of(m *entity.Message) *registry {
	for _, topic := range []string{m.OriginalTopic, m.Source.Topic} {
		for _, r := range d.registries {
			if r.has(topic) {
				return r
			}
		}
	}
	return nil
}

// loaded reports whether the store returned the message with the whole part: the key or the value.
func loaded(m *entity.Message, kind entity.RecordPart) bool {
	if kind == entity.KeyPart {
		return m.Record.KeyOmitted == 0
	}
	return m.Record.State == entity.ValueStored || m.Record.State == entity.ValueFromPayload
}

// reader implements entity.PartReader. It waits for all of its look-ups together for at most the configured timeout,
// and what refill adds. After that, parts whose schema is not in the cache get the reason entity.SchemaUnavailable.
type reader struct {
	decoder *Decoder
	visible *entity.TopicPatterns
	ctx     context.Context //nolint:containedctx // a reader is used only while ctx lives
	budget  time.Duration
	used    time.Time
}

// Reader returns a PartReader whose look-ups end with ctx, and which waits for all of its look-ups together for at most
// the configured timeout, and what refill adds.
func (d *Decoder) Reader(ctx context.Context) entity.PartReader { return d.ReaderFor(ctx, nil) }

// ReaderFor returns a Reader for a caller who may see only some topics; nil means all. A record may name any schema of
// the registry, so to this caller Complete names only subjects that belong to these topics.
func (d *Decoder) ReaderFor(ctx context.Context, visible *entity.TopicPatterns) entity.PartReader {
	r := &reader{decoder: d, visible: visible, ctx: ctx, used: time.Now()}
	if d != nil {
		r.budget = d.cfg.Timeout
	}
	return r
}

// refill says how much more waiting time a reader gets: one second for every 10 seconds in which it did not wait. It
// never has more than the timeout left.
const refill = 10

// wait calls look with a context that ends when the reader has waited for as long as it may.
func (r *reader) wait(look func(context.Context) error) error {
	now := time.Now()
	r.budget = min(r.budget+now.Sub(r.used)/refill, r.decoder.cfg.Timeout)
	ctx, cancel := context.WithTimeout(r.ctx, r.budget)
	defer cancel()
	err := look(ctx)
	r.used = time.Now()
	r.budget = max(0, r.budget-r.used.Sub(now))
	return err
}

// Decode implements entity.PartReader.
func (r *reader) Decode(m *entity.Message, kind entity.RecordPart, limit int) entity.Decoded {
	p, ok := r.decoder.part(m, kind)
	if !ok || !loaded(m, kind) {
		return entity.Decoded{}
	}
	d := entity.Decoded{Format: entity.UnknownFormat, Schema: entity.SchemaRef{Registry: p.registry.cfg.Name, ID: p.id, GUID: p.guid}}
	var c *compiled
	if err := r.wait(func(ctx context.Context) (err error) {
		c, err = p.schema(ctx)
		return err
	}); err != nil {
		d.Omitted, d.Reason, d.Temporary = entity.SchemaUnavailable, unavailable(err, &p), !missing(err)
		return d
	}
	d.Format, d.Schema.ID, d.Schema.GUID = c.format, c.id, c.guid
	if c.fault != nil {
		d.Omitted, d.Reason = entity.SchemaError, clip(c.fault.Error())
		return d
	}
	var err error
	if d.JSON, err = c.decode(p.frame, limit); err != nil {
		d.JSON, d.Omitted, d.Reason = nil, entity.SchemaError, clip(err.Error())
		var over *codec.LimitError
		if errors.As(err, &over) {
			d.Omitted = over.Kind
		}
	}
	if d.JSON != nil {
		d.Names = c.names(p.frame)
	}
	return d
}

// schema returns the schema with which the part is encoded.
func (p *part) schema(ctx context.Context) (*compiled, error) {
	switch {
	case p.subject != "":
		found, err := p.registry.latest(ctx, p.subject)
		if err != nil {
			return nil, err
		}
		return p.registry.byID(ctx, found.ID)
	case p.guid != "":
		return p.registry.byGUID(ctx, p.guid)
	}
	return p.registry.byID(ctx, p.id)
}

func unavailable(err error, p *part) string {
	what := fmt.Sprintf("schema %d", p.id)
	switch {
	case p.subject != "":
		what = "subject " + p.subject
	case p.guid != "":
		what = "schema " + p.guid
	}
	return clip(fmt.Sprintf("%s of registry %s: %v", what, p.registry.cfg.Name, err))
}

// Complete implements entity.PartReader.
func (r *reader) Complete(m *entity.Message, kind entity.RecordPart, d *entity.Decoded) {
	p, ok := r.decoder.part(m, kind)
	if !ok || d.Schema.ID == 0 || d.Omitted == entity.SchemaUnavailable {
		return
	}
	_ = r.wait(func(ctx context.Context) error {
		c, err := p.schema(ctx)
		if err != nil {
			return err
		}
		err = r.decoder.complete(ctx, &p, m, c, &d.Schema, r.visible)
		if err == nil {
			r.decoder.watch.look(ctx, &p, c, d.Schema)
		}
		return err
	})
	if r.visible != nil && d.Schema.Subject == "" && d.Omitted == entity.SchemaError {
		d.Reason = "" // it may quote the schema
	}
}

// complete adds to ref one of the subjects that contain the schema, and its latest version. It prefers the configured
// subject, otherwise the subject that the strategy gives for the original topic, otherwise the subject for the
// dead-letter topic. If no such subject contains the schema, and the caller may see all topics, it takes the first one.
func (d *Decoder) complete(ctx context.Context, p *part, m *entity.Message, c *compiled, ref *entity.SchemaRef, visible *entity.TopicPatterns) error {
	found, err := p.registry.subjects(ctx, c.id)
	if err != nil {
		return err
	}
	wanted := []string{p.subject}
	for _, topic := range []string{m.OriginalTopic, m.Source.Topic} {
		if visible == nil || visible.Match(topic) && d.namesTopic(p.registry.registry, visible) {
			wanted = append(wanted, p.subjectFor(topic, c))
		}
	}
	for _, name := range wanted {
		for _, s := range found {
			if s.Subject == name && ref.Subject == "" {
				ref.Subject, ref.Version = s.Subject, s.Version
			}
		}
	}
	if ref.Subject == "" && len(found) > 0 && visible == nil {
		ref.Subject, ref.Version = found[0].Subject, found[0].Version
	}
	if ref.Subject == "" {
		return nil
	}
	latest, err := p.registry.latest(ctx, ref.Subject)
	ref.LatestVersion = latest.Version
	return err
}

// namesTopic reports whether a subject of the registry belongs to a topic because it has the topic's subject name. The
// name of a record names no topic, so with that strategy every subject belongs to all topics of the registry, under any
// of its names in the configuration, and the caller must be permitted to see all of these.
func (d *Decoder) namesTopic(r *registry, visible *entity.TopicPatterns) bool {
	if r.cfg.SubjectStrategy != recordName {
		return true
	}
	address := func(r *registry) string { return strings.TrimRight(r.cfg.URL, "/") }
	return !slices.ContainsFunc(d.registries, func(same *registry) bool {
		return address(same) == address(r) && (len(same.cfg.Topics) == 0 || slices.ContainsFunc(same.cfg.Topics, func(pattern string) bool {
			return !slices.Contains(visible.Texts(), pattern) && (!entity.ValidTopic(pattern) || !visible.Match(pattern))
		}))
	})
}

// subjectFor returns the subject under which producers to the topic register their schemas.
func (p *part) subjectFor(topic string, c *compiled) string {
	var indexes []int
	if c.proto != nil {
		indexes, _, _ = p.indexes()
	}
	switch name := c.name(indexes); p.registry.cfg.SubjectStrategy {
	case recordName:
		return name
	case topicRecordName:
		return topic + "-" + name
	}
	return topic + "-" + string(p.kind)
}

const maxReason = 500

// clip shortens a reason, which may quote a schema, to maxReason bytes.
func clip(reason string) string { return codec.Clip(reason, maxReason) }
