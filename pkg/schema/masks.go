package schema

import (
	"context"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
)

// maxWatched is how many versions of subjects a maskWatch remembers; it looks at no others.
const maxWatched = 10_000

// maskWatch notices masks that fitted an earlier version of a subject, and do not fit its latest version: a field was
// renamed without an alias, and its values are shown since.
type maskWatch struct {
	masks     *payload.Masks
	unmatched *prometheus.CounterVec
	log       *zap.Logger

	mu   sync.Mutex
	seen map[entity.SchemaRef]bool
}

// WatchMasks makes the Decoder report masks that the latest version of a subject has lost: once for each version in the
// log, and as a metric, which it registers with reg. It must be called before the Decoder is used.
func (d *Decoder) WatchMasks(masks *payload.Masks, reg prometheus.Registerer, log *zap.Logger) {
	if d == nil || !masks.CoversPath(payload.Path{}) {
		return
	}
	w := &maskWatch{masks: masks, log: log, seen: map[entity.SchemaRef]bool{}}
	w.unmatched = promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
		Name: "dlq_masks_unmatched_total",
		Help: "Masked paths that fitted an earlier version of a subject and do not fit its latest version; the log names them.",
	}, []string{"registry"})
	for _, r := range d.registries {
		w.unmatched.WithLabelValues(r.cfg.Name)
	}
	d.watch = w
}

// look compares the latest version of a subject with the version of a message that has the schema own, or with the
// version before it. When one of their schemas cannot be read now, the next message is looked at.
func (w *maskWatch) look(ctx context.Context, p *part, own *compiled, ref entity.SchemaRef) {
	key := entity.SchemaRef{Registry: ref.Registry, Subject: ref.Subject, LatestVersion: ref.LatestVersion}
	if w == nil || ref.LatestVersion < 2 || !w.first(key) {
		return
	}
	before, after, err := p.versions(ctx, own, ref)
	if err != nil || before.fault != nil || after.fault != nil {
		if !missing(err) {
			w.mu.Lock()
			delete(w.seen, key)
			w.mu.Unlock()
		}
		return
	}
	var indexes []int
	if own.proto != nil {
		indexes, _, _ = p.indexes()
	}
	was, is := w.masks.Fits(before.namesOf(own.name(indexes))), w.masks.Fits(after.namesOf(own.name(indexes)))
	for path, fitted := range was {
		if fitted && !is[path] {
			w.unmatched.WithLabelValues(ref.Registry).Inc()
			w.log.Warn("the latest version of a subject has no field for a mask that an earlier version has; if the field was renamed, its values are shown",
				zap.String("mask", path), zap.String("registry", ref.Registry), zap.String("subject", ref.Subject), zap.Int("version", ref.LatestVersion))
		}
	}
}

func (w *maskWatch) first(key entity.SchemaRef) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen[key] || len(w.seen) >= maxWatched {
		return false
	}
	w.seen[key] = true
	return true
}

// versions returns the schemas of an earlier version of a subject and of the latest one.
func (p *part) versions(ctx context.Context, own *compiled, ref entity.SchemaRef) (before, after *compiled, err error) {
	latest, err := p.registry.latest(ctx, ref.Subject)
	if err != nil {
		return nil, nil, err
	}
	if after, err = p.registry.byID(ctx, latest.ID); err != nil {
		return nil, nil, err
	}
	if ref.Version < latest.Version {
		return own, after, nil
	}
	found, err := p.registry.version(ctx, ref.Subject, latest.Version-1)
	if err != nil {
		return nil, nil, err
	}
	before, err = p.registry.byID(ctx, found.ID)
	return before, after, err
}

// namesOf returns the names in values of the schema's type; message is the message type of a Protobuf schema.
func (c *compiled) namesOf(message string) entity.Names {
	switch {
	case c.avro != nil:
		return c.avro.Names()
	case c.proto != nil:
		return c.proto.Names(c.proto.Find(message))
	}
	return nil
}
