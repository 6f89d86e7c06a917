package schema

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/sr"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

const (
	// lookupsPerSecond limits the requests to one registry, because records may name any number of schemas that do not
	// exist.
	lookupsPerSecond = 10
	// unknownAge is the time after which a schema or subject is requested again that the registry did not have, or for
	// which its answer was too large.
	unknownAge = time.Minute
	// subjectAge is how long two answers are cached that may change: the latest version of a subject, and the list of
	// the subjects that contain a schema.
	subjectAge = 10 * time.Second
	// downAge is how long no request is sent to a registry after a request to it has failed.
	downAge = 5 * time.Second
	// entrySize is the memory of the cache itself for one value, and is added to the size of the value.
	entrySize = 512
)

// registry looks up schemas in one registry. It is safe for concurrent use.
type registry struct {
	cfg     RegistryConfig
	topics  *entity.TopicPatterns // topics for which this registry is used; nil for all topics
	client  *sr.Client
	timeout time.Duration
	limiter *rate.Limiter
	cache   *cache
	flights singleflight.Group
	lookups *prometheus.CounterVec
	now     func() time.Time

	mu        sync.Mutex
	downUntil time.Time
	fault     error
}

func newRegistry(cfg RegistryConfig, timeout time.Duration, shared *cache, lookups *prometheus.CounterVec) (*registry, error) {
	client, err := newClient(cfg, timeout)
	if err != nil {
		return nil, err
	}
	r := &registry{
		cfg: cfg, client: client, timeout: timeout, limiter: rate.NewLimiter(lookupsPerSecond, lookupsPerSecond), cache: shared,
		lookups: lookups, now: time.Now,
	}
	if len(cfg.Topics) > 0 {
		patterns, err := entity.ParseTopicPatterns("schemas.registries.topics", cfg.Topics...)
		if err != nil {
			return nil, err
		}
		r.topics = &patterns
	}
	for _, result := range []string{"found", "unknown", "failed"} {
		lookups.WithLabelValues(cfg.Name, result)
	}
	return r, nil
}

func (r *registry) has(topic string) bool {
	return topic != "" && (r.topics == nil || r.topics.Match(topic))
}

// unknown is cached instead of a value when the registry has no usable schema, subject or version; err says why.
type unknown struct{ err error }

// find returns the value that is cached under the key. If there is none, it calls the function look, for at most the
// registry's timeout. Callers with the same key share one call of look, which continues after the ctx of a caller has
// ended. The function size returns how many bytes the value uses in memory, and for how long it may be cached; 0 means
// without a time limit.
func find[T any](ctx context.Context, r *registry, key string, look func(context.Context) (T, error), size func(T) (int, time.Duration)) (found T, err error) {
	key = r.cfg.Name + "\n" + key
	if v, ok, err := r.known(key); ok {
		found, _ = v.(T)
		return found, err
	}
	if err := r.down(); err != nil {
		return found, err
	}
	if ctx.Err() != nil {
		return found, errNoTime
	}
	done := r.flights.DoChan(key, func() (any, error) {
		if v, ok, err := r.known(key); ok { // since the check above, the call of look for another caller has ended
			return v, err
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.timeout)
		defer cancel()
		v, err := look(ctx)
		switch {
		case missing(err):
			r.cache.put(cached{key: key, value: unknown{err}, size: entrySize, expires: r.now().Add(unknownAge)})
			return nil, err
		case err != nil:
			return nil, err
		}
		bytes, age := size(v)
		item := cached{key: key, value: v, size: bytes + entrySize}
		if age > 0 {
			item.expires = r.now().Add(age)
		}
		r.cache.put(item)
		return v, nil
	})
	select {
	case answer := <-done:
		if answer.Err != nil {
			return found, answer.Err
		}
		return answer.Val.(T), nil //nolint:forcetypeassert // all values of a key have the same type
	case <-ctx.Done():
		return found, errNoTime
	}
}

// known returns the answer of an earlier request from the cache; ok is false when there is none.
func (r *registry) known(key string) (v any, ok bool, err error) {
	v, ok = r.cache.get(key, r.now())
	if none, missing := v.(unknown); missing {
		return nil, ok, none.err
	}
	return v, ok, nil
}

var (
	errNoTime = errors.New("the look-ups take too long; it is tried again later")
	errBusy   = fmt.Errorf("more than %d look-ups a second; it is tried again later", lookupsPerSecond)
)

// request sends one request, within the limits. After a failure, no request is sent to the registry for the time
// downAge.
func (r *registry) request(ctx context.Context, do func() error) error {
	if err := r.down(); err != nil {
		return err
	}
	if err := r.limiter.Wait(ctx); err != nil {
		return errBusy
	}
	err := translate(do())
	switch {
	case err == nil:
		r.lookups.WithLabelValues(r.cfg.Name, "found").Inc()
	case errors.Is(err, errUnknown):
		r.lookups.WithLabelValues(r.cfg.Name, "unknown").Inc()
	default:
		r.lookups.WithLabelValues(r.cfg.Name, "failed").Inc()
		if !missing(err) {
			r.mu.Lock()
			r.downUntil, r.fault = r.now().Add(downAge), err
			r.mu.Unlock()
		}
	}
	return err
}

// down returns the reason why no request is sent to the registry at the moment; nil when requests are sent.
func (r *registry) down() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now().Before(r.downUntil) {
		return r.fault
	}
	return nil
}

// byID returns the schema with the id. The error is errUnknown or errAnswerSize, or says why the schema cannot be read
// now.
func (r *registry) byID(ctx context.Context, id int) (*compiled, error) {
	return r.schema(ctx, "id "+strconv.Itoa(id), func(ctx context.Context) (found sr.SubjectSchema, err error) {
		found.ID = id
		err = r.request(ctx, func() (err error) {
			found.Schema, err = r.client.SchemaByID(ctx, id)
			return orNoSchema(found.Schema, err)
		})
		return found, err
	})
}

func (r *registry) byGUID(ctx context.Context, guid string) (*compiled, error) {
	return r.schema(ctx, "guid "+guid, func(ctx context.Context) (found sr.SubjectSchema, err error) {
		err = r.request(ctx, func() (err error) {
			found, err = r.client.SchemaByGUID(ctx, guid)
			return orNoSchema(found.Schema, err)
		})
		found.GUID = guid
		if err != nil || found.ID != 0 {
			return found, err
		}
		err = r.request(ctx, func() error {
			ids, err := r.client.SchemaIDsByGUID(ctx, guid)
			if len(ids) > 0 {
				found.ID = ids[0].ID
			}
			return err
		})
		// older registries cannot return the id for a GUID: then the schema is shown without its subject
		if errors.Is(err, errUnknown) {
			err = nil
		}
		return found, err
	})
}

// schema looks up a schema and the schemas to which it refers, and compiles them.
func (r *registry) schema(ctx context.Context, key string, look func(context.Context) (sr.SubjectSchema, error)) (*compiled, error) {
	return find(ctx, r, key, func(ctx context.Context) (*compiled, error) {
		found, err := look(ctx)
		if err != nil {
			return nil, err
		}
		return r.compile(ctx, found)
	}, func(c *compiled) (int, time.Duration) { return c.weight(), 0 })
}

func (r *registry) compile(ctx context.Context, found sr.SubjectSchema) (*compiled, error) {
	refs, err := r.references(ctx, found.Schema)
	switch {
	// such a schema can never be used, so its fault is cached without a time limit
	case errors.Is(err, errSchemaSize) || errors.Is(err, errReferences):
		return &compiled{source: source{format: formatOf(found.Type)}, id: found.ID, guid: found.GUID, fault: err}, nil
	case err != nil:
		return nil, err
	}
	return compile(found.ID, found.GUID, source{format: formatOf(found.Type), text: found.Schema.Schema, refs: refs}), nil
}

// version returns one version of a subject. It is cached without a time limit, because versions never change.
func (r *registry) version(ctx context.Context, subject string, version int) (sr.SubjectSchema, error) {
	return find(ctx, r, fmt.Sprintf("version %d of %s", version, subject), func(ctx context.Context) (sr.SubjectSchema, error) {
		return r.bySubject(sr.WithParams(ctx, sr.ShowDeleted), subject, version)
	}, func(found sr.SubjectSchema) (int, time.Duration) { return len(found.Schema.Schema), 0 })
}

// latest returns the latest version of a subject.
func (r *registry) latest(ctx context.Context, subject string) (sr.SubjectSchema, error) {
	return find(ctx, r, "latest "+subject, func(ctx context.Context) (sr.SubjectSchema, error) {
		return r.bySubject(ctx, subject, -1)
	}, func(found sr.SubjectSchema) (int, time.Duration) { return len(found.Schema.Schema), subjectAge })
}

// bySubject requests a version of a subject from the registry; -1 stands for the latest version.
func (r *registry) bySubject(ctx context.Context, subject string, version int) (found sr.SubjectSchema, err error) {
	err = r.request(ctx, func() (err error) {
		found, err = r.client.SchemaByVersion(ctx, subject, version)
		return orNoSchema(found.Schema, err)
	})
	return found, err
}

// subjects returns the subjects, with the versions, in which a schema is registered.
func (r *registry) subjects(ctx context.Context, id int) ([]sr.SubjectVersion, error) {
	return find(ctx, r, "subjects "+strconv.Itoa(id), func(ctx context.Context) (found []sr.SubjectVersion, err error) {
		err = r.request(ctx, func() (err error) {
			found, err = r.client.SchemaVersionsByID(ctx, id)
			return err
		})
		return found, err
	}, func(found []sr.SubjectVersion) (int, time.Duration) { return len(found) * entrySize, subjectAge })
}
