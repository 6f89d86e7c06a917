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
	// lookupsPerSecond limits the questions to one registry, because records may name any number of schemas that do not
	// exist. slowLookups is the limit while the registry asks for fewer questions with Retry-After.
	lookupsPerSecond = 10
	slowLookups      = 1
	// unknownAge is the time after which a schema or subject is requested again that the registry did not have, or for
	// which it had no usable answer.
	unknownAge = time.Minute
	// subjectAge is how long two answers are cached that may change: the latest version of a subject, and the list of
	// the subjects that contain a schema.
	subjectAge = 10 * time.Second
	// slowAge is how long the fault of a schema is cached that took too long to compile, perhaps because the machine was
	// busy.
	slowAge = 5 * time.Minute
	// firstPause is the time after which a question is asked again that failed. It doubles with each failure, up to
	// longestPause.
	firstPause   = time.Second
	longestPause = 5 * time.Minute
	// entrySize is the memory of the cache itself for one value, and is added to the size of the value.
	entrySize = 512
)

// registry looks up schemas in one registry. It is safe for concurrent use.
type registry struct {
	cfg      RegistryConfig
	topics   *entity.TopicPatterns // topics for which this registry is used; nil for all topics
	client   *sr.Client
	timeout  time.Duration // of one question
	maxBytes int           // maximum size of a schema with all that it imports
	health   *health
	turns    turns // topics that wait for the limiter
	limiter  *rate.Limiter
	cache    *cache
	compiler *compiler
	flights  singleflight.Group
	lookups  *prometheus.CounterVec

	mu        sync.Mutex
	slowUntil time.Time // until when the limit is slowLookups
}

// asker asks the questions of one topic: the dead-letter topic of the record that names the schema. Topics are equal in
// everything that is limited.
type asker struct {
	*registry
	topic string
}

func newRegistry(cfg Config, c RegistryConfig, shared *cache, compiler *compiler, lookups *prometheus.CounterVec) (*registry, error) {
	// twice the size because of the escapes in JSON; larger schemas up to that get the fault that they are too large
	client, err := newClient(c, 2*cfg.MaxBytes+1<<20)
	if err != nil {
		return nil, err
	}
	r := &registry{
		cfg: c, client: client, timeout: cfg.Timeout, maxBytes: cfg.MaxBytes, health: newHealth(),
		limiter: rate.NewLimiter(lookupsPerSecond, lookupsPerSecond), cache: shared, compiler: compiler, lookups: lookups,
	}
	if len(c.Topics) > 0 {
		patterns, err := entity.ParseTopicPatterns("schemas.registries.topics", c.Topics...)
		if err != nil {
			return nil, err
		}
		r.topics = &patterns
	}
	for _, result := range []kind{kindFound, kindUnknown, kindRefused, kindBusy, kindFailed} {
		lookups.WithLabelValues(c.Name, string(result))
	}
	return r, nil
}

func (r *registry) has(topic string) bool {
	return topic != "" && (r.topics == nil || r.topics.Match(topic))
}

// refusal is cached instead of a value that could not be looked up.
type refusal struct {
	err   error
	until time.Time     // when it may be looked up again
	pause time.Duration // the time that was waited after a failure; 0 when the registry has no usable schema
}

// find returns the value that is cached under the key. If there is none, it calls the function look, and waits for it
// until ctx ends. Callers of one topic with the same key share one call of look, which continues in the background; each
// topic has a call of its own, because it must not wait for what other topics have asked before. The function size
// returns how many bytes the value uses in memory, and for how long it may be cached; 0 means without a time limit.
func find[T any](ctx context.Context, a asker, key string, look func(context.Context, string) (T, error), size func(T) (int, time.Duration)) (v T, err error) {
	key = a.cfg.Name + "\n" + key
	if known, ok, err := a.known(key); ok {
		v, _ = known.(T)
		return v, err
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return v, errNoTime
	}
	done := a.flights.DoChan(a.topic+"\n"+key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.timeout)
		defer cancel()
		v, err := look(ctx, key)
		switch {
		case errors.Is(err, errAnswered):
			if v, ok, err := a.known(key); ok {
				return v, err
			}
			return nil, errBusy
		case err != nil && kindOf(err) != kindNone:
			a.refuse(key, err)
			return nil, err
		case err != nil:
			return nil, err
		}
		bytes, age := size(v)
		item := cached{key: key, topic: a.topic, value: v, size: bytes + entrySize}
		if age > 0 {
			item.expires = time.Now().Add(age)
		}
		a.cache.put(item)
		return v, nil
	})
	select {
	case answer := <-done:
		if answer.Err != nil {
			return v, answer.Err
		}
		return answer.Val.(T), nil //nolint:forcetypeassert // all values of a key have the same type
	case <-ctx.Done():
		return v, errNoTime
	}
}

// known returns what is known of an earlier look-up; ok is false when the registry may be asked.
func (a asker) known(key string) (v any, ok bool, err error) {
	v, ok = a.cache.get(key, a.topic, time.Now())
	if no, is := v.(refusal); is {
		return nil, time.Now().Before(no.until), no.err
	}
	return v, ok, nil
}

// refuse stores that a look-up has failed. It is put off for a time that doubles with each failure.
func (a asker) refuse(key string, err error) {
	now := time.Now()
	no := refusal{err: err, until: now.Add(unknownAge)}
	before, known := a.cache.get(key, a.topic, now)
	last, refused := before.(refusal)
	if known && !refused {
		return // another topic has got it meanwhile
	}
	if !missing(err) {
		no.pause = min(max(2*last.pause, firstPause), longestPause)
		no.until = now.Add(no.pause)
	}
	a.cache.put(cached{key: key, topic: a.topic, value: no, size: entrySize, expires: no.until.Add(longestPause)})
}

var (
	errNoTime   = errors.New("the look-ups take too long; it is tried again later")
	errBusy     = errors.New("too many look-ups at once; it is tried again later")
	errAnswered = errors.New("another topic's look-up has ended meanwhile")
)

// request asks the registry a question, within the limits, and returns its answer.
func request[T any](ctx context.Context, a asker, key string, send func(context.Context) (T, error)) (v T, err error) {
	if err := a.health.check(a.topic, time.Now()); err != nil {
		return v, err
	}
	if err := a.waitForLimit(ctx, key); err != nil {
		return v, err
	}
	first, err := a.health.enter(a.topic, time.Now())
	if err == nil && first.key != "" {
		err = a.probe(ctx, first)
	}
	if err != nil {
		return v, err
	}
	err = a.ask(ctx, func(ctx context.Context) (err error) {
		v, err = send(ctx)
		return err
	})
	again := func(ctx context.Context) error {
		_, err := send(ctx)
		return err
	}
	if verify := a.health.note(question{key, a.topic, again}, err, time.Now()); verify.key != "" {
		_ = a.probe(ctx, verify)
	}
	return v, err
}

// waitForLimit waits until a further question may be asked. The topics that wait take turns. The error is errBusy, or
// errAnswered when the answer is known meanwhile.
func (a asker) waitForLimit(ctx context.Context, key string) error {
	done, err := a.turns.take(ctx, a.topic)
	if err != nil {
		return err
	}
	defer done()
	if _, ok, _ := a.known(key); ok {
		return errAnswered
	}
	a.pace(0)
	if a.limiter.Wait(ctx) != nil {
		return errBusy
	}
	return nil
}

// pace sets the limit of questions per second. It is slowLookups for the time slow, and for the time of earlier calls.
func (r *registry) pace(slow time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, limit := time.Now(), lookupsPerSecond
	if until := now.Add(slow); until.After(r.slowUntil) {
		r.slowUntil = until
	}
	if now.Before(r.slowUntil) {
		limit = slowLookups
	}
	if r.limiter.Burst() != limit {
		r.limiter.SetLimit(rate.Limit(limit))
		r.limiter.SetBurst(limit)
	}
}

// probe asks a question that was answered well earlier, to find out whether the registry works. It returns an error
// when the registry is down. It does not wait for the limit, but later questions do.
func (a asker) probe(ctx context.Context, q question) error {
	a.limiter.Reserve()
	a.health.settle(a.ask(ctx, q.send), time.Now())
	return a.health.check(a.topic, time.Now())
}

func (r *registry) ask(ctx context.Context, send func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.timeout)
	defer cancel()
	err := translate(send(ctx))
	r.lookups.WithLabelValues(r.cfg.Name, string(kindOf(err))).Inc()
	var answer *lookupError
	if errors.As(err, &answer) && answer.wait > 0 {
		r.pace(answer.wait)
	}
	return err
}

// byID returns the schema with the id. An error is one of those for which missing is true, or says why the schema
// cannot be read now.
func (a asker) byID(ctx context.Context, id int) (*compiled, error) {
	if id > maxID {
		return nil, errRange
	}
	return a.schema(ctx, "id "+strconv.Itoa(id), func(ctx context.Context, key string) (found sr.SubjectSchema, err error) {
		found.Schema, err = request(ctx, a, key, func(ctx context.Context) (sr.Schema, error) {
			text, err := a.client.SchemaByID(ctx, id)
			return text, orNoSchema(text, err)
		})
		found.ID = id
		return found, err
	})
}

func (a asker) byGUID(ctx context.Context, guid string) (*compiled, error) {
	return a.schema(ctx, "guid "+guid, func(ctx context.Context, key string) (sr.SubjectSchema, error) {
		found, err := request(ctx, a, key, func(ctx context.Context) (sr.SubjectSchema, error) {
			found, err := a.client.SchemaByGUID(ctx, guid)
			return found, orNoSchema(found.Schema, err)
		})
		found.GUID = guid
		if err != nil || found.ID != 0 {
			return found, err
		}
		ids, err := request(ctx, a, key, func(ctx context.Context) ([]sr.ContextID, error) {
			return a.client.SchemaIDsByGUID(ctx, guid)
		})
		if len(ids) > 0 {
			found.ID = ids[0].ID
		}
		// older registries cannot return the id for a GUID: then the schema is shown without its subject
		if missing(err) {
			err = nil
		}
		return found, err
	})
}

// schema looks up a schema and the schemas to which it refers, and compiles them.
func (a asker) schema(ctx context.Context, key string, look func(context.Context, string) (sr.SubjectSchema, error)) (*compiled, error) {
	return find(ctx, a, key, func(ctx context.Context, key string) (*compiled, error) {
		found, err := look(ctx, key)
		if err != nil {
			return nil, err
		}
		return a.compile(ctx, found)
	}, func(c *compiled) (int, time.Duration) {
		if errors.Is(c.fault, errSlow) {
			return c.weight(), slowAge
		}
		return c.weight(), 0
	})
}

func (a asker) compile(ctx context.Context, found sr.SubjectSchema) (*compiled, error) {
	s := source{format: formatOf(found.Type), text: found.Schema.Schema}
	var err error
	s.refs, err = a.references(ctx, found.Schema)
	switch {
	// such a schema can never be used, so its fault is cached without a time limit
	case errors.Is(err, errSchemaSize) || errors.Is(err, errReferences):
		return unusable(found.ID, found.GUID, s.format, err), nil
	case err != nil:
		return nil, err
	}
	return a.compiler.compile(ctx, a.topic, found.ID, found.GUID, s)
}

// version returns one version of a subject. It is cached without a time limit, because versions never change.
func (a asker) version(ctx context.Context, subject string, version int) (sr.SubjectSchema, error) {
	return find(ctx, a, fmt.Sprintf("version %d of %s", version, subject), func(ctx context.Context, key string) (sr.SubjectSchema, error) {
		return a.bySubject(sr.WithParams(ctx, sr.ShowDeleted), key, subject, version)
	}, func(found sr.SubjectSchema) (int, time.Duration) { return len(found.Schema.Schema), 0 })
}

// latest returns the latest version of a subject.
func (a asker) latest(ctx context.Context, subject string) (sr.SubjectSchema, error) {
	return find(ctx, a, "latest "+subject, func(ctx context.Context, key string) (sr.SubjectSchema, error) {
		return a.bySubject(ctx, key, subject, -1)
	}, func(found sr.SubjectSchema) (int, time.Duration) { return len(found.Schema.Schema), subjectAge })
}

// bySubject requests a version of a subject from the registry; -1 stands for the latest version.
func (a asker) bySubject(ctx context.Context, key, subject string, version int) (sr.SubjectSchema, error) {
	return request(ctx, a, key, func(ctx context.Context) (sr.SubjectSchema, error) {
		found, err := a.client.SchemaByVersion(ctx, subject, version)
		return found, orNoSchema(found.Schema, err)
	})
}

// subjects returns the subjects, with the versions, in which a schema is registered.
func (a asker) subjects(ctx context.Context, id int) ([]sr.SubjectVersion, error) {
	return find(ctx, a, "subjects "+strconv.Itoa(id), func(ctx context.Context, key string) ([]sr.SubjectVersion, error) {
		return request(ctx, a, key, func(ctx context.Context) ([]sr.SubjectVersion, error) {
			return a.client.SchemaVersionsByID(ctx, id)
		})
	}, func(found []sr.SubjectVersion) (int, time.Duration) { return len(found) * entrySize, subjectAge })
}
