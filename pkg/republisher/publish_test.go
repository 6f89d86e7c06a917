package republisher

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

func TestHeaders(t *testing.T) {
	t.Parallel()
	m := message(func(m *entity.Message) {
		m.ID = uuid.MustParse("00000000-0000-7000-8000-000000000001")
		m.Root = uuid.MustParse("00000000-0000-7000-8000-000000000002")
		m.Claim.ID = uuid.MustParse("00000000-0000-7000-8000-000000000003")
		m.RetryCount = 2
		m.Record.Headers = []entity.Header{
			{Key: "trace", Value: []byte{0xff, 0}},
			{Key: "kafka_dlt-original-topic", Value: []byte("orders")},
			{Key: "", Value: nil},
			{Key: "dlq-retry-count", Value: []byte("99")},
			{Key: "trace", Value: []byte{}},
			{Key: "dlq-redrive-id", Value: []byte("old")},
		}
	})
	want := []entity.Header{
		{Key: "trace", Value: []byte{0xff, 0}},
		{Key: "", Value: nil},
		{Key: "trace", Value: []byte{}},
		{Key: "dlq-message-id", Value: []byte("00000000-0000-7000-8000-000000000001")},
		{Key: "dlq-root-id", Value: []byte("00000000-0000-7000-8000-000000000002")},
		{Key: "dlq-retry-count", Value: []byte("2")},
		{Key: "dlq-redrive-id", Value: []byte("00000000-0000-7000-8000-000000000003")},
		{Key: "dlq-redriven-at", Value: []byte("2026-01-01T18:04:05.678Z")},
	}
	r := check.Must(New(DefaultConfig(), deadletter.Patterns{}, nil, nil))(t)
	check.Equal(t, r.headers(&m, "orders", m.Record.Headers, clock), want, "headers")
	m.Root = uuid.Nil
	check.Equal(t, string(r.headers(&m, "orders", m.Record.Headers, clock)[4].Value), m.ID.String(), "root of a first message")
}

func TestPublishKeepsBytes(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name       string
		key, value []byte
		state      entity.ValueState
	}{
		{"Plain", []byte("k"), []byte("v"), entity.ValueStored},
		{"NullKeyAndTombstone", nil, nil, entity.ValueStored},
		{"EmptyKeyAndValue", []byte{}, []byte{}, entity.ValueStored},
		{"NotText", []byte{0, 0xff}, []byte{0xfe, 0}, entity.ValueStored},
		{"PayloadOfARow", nil, []byte(`{"a": 1}`), entity.ValueFromPayload},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLogs()
			r := newRepublisher(t, l)
			batch := claimed(t, r, message(func(m *entity.Message) {
				m.Record = entity.Record{Key: c.key, Value: c.value, State: c.state}
				m.Origin.Partition = ptr(int32(1))
			}))
			got := r.Publish(t.Context(), batch)
			check.Equal(t, got[0], entity.Delivery{Verdict: entity.Acknowledged, Partition: 1}, "Publish")
			sent := l.records[part(1)][0]
			check.True(t, reflect.DeepEqual([][]byte{sent.Key, sent.Value}, [][]byte{c.key, c.value}),
				"sent %#v, %#v, want %#v, %#v", sent.Key, sent.Value, c.key, c.value)
			check.True(t, sent.Time.IsZero(), "time = %s, want the broker's present", sent.Time)
		})
	}
}

func TestPublishNewKeys(t *testing.T) {
	t.Parallel()
	l := newLogs()
	r := newRepublisher(t, l, func(c *Config) { c.RepublishKey = KeyUUID })
	m := message()
	keys := map[string]bool{}
	for m.RetryCount = range 3 {
		m.MaxRetries = 9
		r.Publish(t.Context(), claimed(t, r, m))
	}
	for _, log := range l.records {
		for _, sent := range log {
			id, err := uuid.ParseBytes(sent.Key)
			check.True(t, err == nil && id.Version() == 4 && id.Variant() == uuid.RFC4122,
				"key = %s, %v, want a UUID v4", sent.Key, err)
			keys[id.String()] = true
		}
	}
	check.True(t, len(keys) == 3, "keys = %v, want 3 different ones", keys)
}

func TestPublishKeepsOrder(t *testing.T) {
	t.Parallel()
	l := newLogs()
	r := newRepublisher(t, l)
	var messages []entity.Message
	for i := range 200 {
		messages = append(messages, message(func(m *entity.Message) {
			m.Record.Value = fmt.Append(nil, i)
			m.Origin.Partition = ptr(int32(i % 3))
		}))
	}
	deliveries := r.Publish(t.Context(), claimed(t, r, messages...))
	for i, d := range deliveries {
		want := entity.Delivery{Verdict: entity.Acknowledged, Partition: int32(i % 3), Offset: int64(i / 3)}
		check.Require(t, d == want, "delivery %d = %+v, want %+v", i, d, want)
		got := l.records[part(d.Partition)][d.Offset].Value
		check.Require(t, string(got) == fmt.Sprint(i), "value at %d/%d = %s, want %d", d.Partition, d.Offset, got, i)
	}
}

// TestPublishKeepsOrderAfterAFailure: after a message that could not be written, no later message of its partition is
// sent, although each message with a fetched value is sent alone. Messages do not wait for a message that can never be
// written.
func TestPublishKeepsOrderAfterAFailure(t *testing.T) {
	t.Parallel()
	sum := sha256.Sum256([]byte("fetched"))
	for name, err := range map[string]*broker.ProduceError{
		"Failed":   {Fate: broker.NotSent, Class: broker.ClassBrokerUnavailable, Err: broker.ErrUnavailable},
		"InDoubt":  {Fate: broker.InDoubt, Class: broker.ClassNetworkTimeout, Err: broker.ErrUnavailable},
		"Rejected": {Fate: broker.RecordRejected, Class: broker.ClassBadRecord, Err: broker.ErrUnavailable},
	} {
		for _, failing := range []int{1, 2} {
			t.Run(fmt.Sprint(name, failing), func(t *testing.T) {
				t.Parallel()
				l := newLogs()
				l.records[broker.TopicPartition{Topic: deadLetter}] = []broker.Record{{Offset: 7, Value: []byte("fetched")}}
				r := newRepublisher(t, l)
				var messages []entity.Message
				for i := range 5 {
					messages = append(messages, message(func(m *entity.Message) {
						m.Origin.Partition = ptr(int32(0))
						m.Record.Value = fmt.Append(nil, i)
						if i == 2 || i == 4 {
							m.Source.Topic, m.Source.Partition, m.Source.Offset = deadLetter, 0, 7
							m.Record = entity.Record{State: entity.ValueOverLimit, SHA256: sum[:], Size: 7}
						}
					}))
				}
				batch := claimed(t, r, messages...)
				sent := 0
				l.fail = func(broker.TopicPartition, broker.Record) error {
					sent++
					if sent == failing+1 {
						return err
					}
					return nil
				}
				deliveries := r.Publish(t.Context(), batch)
				var values []string
				for _, record := range l.records[part(0)] {
					values = append(values, string(record.Value))
				}
				want := []string{"0", "1", "fetched", "3", "fetched"}
				if err.Fate == broker.RecordRejected {
					want = slices.Delete(want, failing, failing+1)
				} else {
					want = want[:failing]
					for _, d := range deliveries[failing+1:] {
						check.True(t, d.Verdict == entity.GivenBack && d.Class == entity.ErrorClass(err.Class), "later delivery %+v, want it given back", d)
					}
				}
				check.Equal(t, values, want, "records")
			})
		}
	}
}

func TestPublishAfterItsTime(t *testing.T) {
	t.Parallel()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancelLate := context.WithDeadline(t.Context(), time.Now().Add(-time.Nanosecond))
	defer cancelLate()
	// In a process that was suspended, the context's deadline has passed but its timer has not fired yet.
	stopped := deadlineOnly{t.Context()}
	for name, ctx := range map[string]context.Context{"Drain": cancelled, "OldClaim": late, "OldClaimOfAStoppedProcess": stopped} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLogs()
			r := newRepublisher(t, l)
			got := r.Publish(ctx, claimed(t, r, message(), message(state(entity.ValueOverLimit))))
			for _, d := range got {
				check.True(t, d.Verdict == entity.GivenBack && d.Err != nil && d.Offset == -1, "Publish = %+v, want given back", d)
			}
			for tp, log := range l.records {
				t.Errorf("%s has %d records, want none", tp, len(log))
			}
		})
	}
}

type deadlineOnly struct{ context.Context }

func (deadlineOnly) Deadline() (time.Time, bool) { return time.Now().Add(-time.Second), true }

func TestPublishVerdicts(t *testing.T) {
	t.Parallel()
	produced := func(fate broker.Fate, class broker.Class) error {
		return &broker.ProduceError{Fate: fate, Class: class, Err: errors.New("cause")}
	}
	cases := []struct {
		name    string
		err     error
		verdict entity.Verdict
		class   entity.ErrorClass
	}{
		{"Acknowledged", nil, entity.Acknowledged, ""},
		{"NotSentHasFailed", produced(broker.NotSent, broker.ClassBrokerUnavailable), entity.Failed, entity.BrokerUnavailable},
		{"ThrottledHasFailed", produced(broker.NotSent, broker.ClassRateLimited), entity.Failed, entity.RateLimited},
		{"BehindAFailureIsGivenBack", &broker.ProduceError{
			Fate: broker.NotSent, Class: broker.ClassBrokerUnavailable, Err: fmt.Errorf("%w: cause", broker.ErrNotTried),
		}, entity.GivenBack, entity.BrokerUnavailable},
		{"BehindAPauseIsGivenBackWithoutAFailure", &broker.ProduceError{
			Fate: broker.NotSent, Class: broker.ClassRateLimited, Err: fmt.Errorf("%w: cause", broker.ErrNotTried),
		}, entity.GivenBack, ""},
		{"BadRecordIsRejected", produced(broker.RecordRejected, broker.ClassBadRecord), entity.Rejected, entity.BadRecord},
		{"UnknownTopicIsRefused", produced(broker.TopicRefused, broker.ClassUnknownTopic), entity.Refused, entity.UnknownTopic},
		{"MissingRightIsRefused", produced(broker.TopicRefused, broker.ClassUnauthorized), entity.Refused, entity.Unauthorized},
		{"TimeoutIsInDoubt", produced(broker.InDoubt, broker.ClassNetworkTimeout), entity.InDoubt, entity.NetworkTimeout},
		{"DoubtIsNeverCalledUnsettleable", produced(broker.InDoubt, broker.ClassUnknown), entity.InDoubt, entity.NetworkTimeout},
		{"StrangeErrorIsInDoubt", errors.New("what"), entity.InDoubt, entity.NetworkTimeout},
		{"WrappedIsTheSame", fmt.Errorf("at: %w", produced(broker.RecordRejected, broker.ClassBadRecord)), entity.Rejected, entity.BadRecord},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLogs()
			l.fail = func(broker.TopicPartition, broker.Record) error { return c.err }
			r := newRepublisher(t, l)
			d := r.Publish(t.Context(), claimed(t, r, message()))[0]
			check.True(t, d.Verdict == c.verdict && d.Class == c.class && (d.Err == nil) == (c.err == nil),
				"Publish = %+v, want verdict %q class %q", d, c.verdict, c.class)
		})
	}
}

func TestPublishPassesTheBrokersRestOn(t *testing.T) {
	t.Parallel()
	l := newLogs()
	l.throttle = map[broker.TopicPartition]time.Duration{{Topic: orders, Partition: 2}: 3 * time.Second}
	on := func(p int32) entity.Message { return message(func(m *entity.Message) { m.Origin.Partition = &p }) }
	r := newRepublisher(t, l)
	for i, d := range r.Publish(t.Context(), claimed(t, r, on(1), on(2))) {
		want := []time.Duration{0, 3 * time.Second}[i]
		check.True(t, d.Verdict == entity.Acknowledged && d.Throttle == want,
			"delivery %d = %+v, want acknowledged with a rest of %s", i, d, want)
	}
}

func TestPublishOverLimit(t *testing.T) {
	t.Parallel()
	value := []byte("as large as no store would hold")
	sum := sha256.Sum256(value)
	large := message(func(m *entity.Message) {
		m.Record = entity.Record{Key: []byte("k"), State: entity.ValueOverLimit, SHA256: sum[:]}
	})
	cases := []struct {
		name    string
		held    []broker.Record
		verdict entity.Verdict
	}{
		{"FetchedFromTheDeadLetterTopic", []broker.Record{{Offset: 7, Value: value}}, entity.Acknowledged},
		{"AnotherValueIsNotSent", []broker.Record{{Offset: 7, Value: []byte("other")}}, entity.Rejected},
		{"GoneMeanwhileIsNotSent", []broker.Record{{Offset: 8, Value: value}}, entity.Rejected},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLogs()
			l.records[broker.TopicPartition{Topic: deadLetter}] = c.held
			r := newRepublisher(t, l)
			small := message(func(m *entity.Message) { m.Record.Key = []byte("k") })
			batch := claimed(t, r, small, large, small)
			got := r.Publish(t.Context(), batch)
			check.Require(t, got[1].Verdict == c.verdict, "Publish = %+v, want verdict %q", got[1], c.verdict)
			var sent []string
			for _, record := range l.records[part(batch[0].Target.Partition)] {
				sent = append(sent, string(record.Value))
			}
			want := []string{"value", string(value), "value"}
			if c.verdict != entity.Acknowledged {
				want = []string{"value", "value"}
			}
			check.Equal(t, sent, want, "log")
		})
	}
}

// TestPlanOfCutHeaders: if only some headers of a record are stored, the record is never sent with only these headers.
func TestPlanOfCutHeaders(t *testing.T) {
	t.Parallel()
	sum := sha256.Sum256([]byte("value"))
	cut := message(func(m *entity.Message) {
		m.Record = entity.Record{
			Key: []byte("k"), Value: []byte("value"), State: entity.ValueOverLimit, SHA256: sum[:], Size: 5, Limit: broker.LimitHeaders,
			Headers: []entity.Header{{Key: "first"}},
		}
	})
	whole := broker.Record{Offset: 7, Key: []byte("k"), Value: []byte("value"), Headers: []entity.Header{{Key: "first"}, {Key: "second"}}}
	set := &entity.Edit{SetValue: true, Value: []byte("new")}
	for name, test := range map[string]struct {
		edit   *entity.Edit
		readAt error
		want   string // the headers that are sent
		class  entity.ErrorClass
	}{
		"FromTheDeadLetterTopic":  {nil, nil, "first second", ""},
		"WithAnotherValue":        {set, nil, "first second", ""},
		"WithOtherHeaders":        {&entity.Edit{SetValue: true, SetHeaders: true, Headers: []entity.Header{{Key: "own"}}}, broker.ErrTooLarge, "own", ""},
		"TooLargeToRead":          {nil, broker.ErrTooLarge, "", entity.BadRecord},
		"TooLargeForAnotherValue": {set, broker.ErrTooLarge, "", entity.BadRecord},
		"CannotBeRead":            {nil, broker.ErrCorrupt, "", entity.BadRecord},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLogs()
			l.records[broker.TopicPartition{Topic: deadLetter}] = []broker.Record{whole}
			l.readAt = test.readAt
			r := newRepublisher(t, l)
			batch := []entity.Outgoing{{Message: cut, Edit: test.edit}}
			batch[0].Target = r.Plan(t.Context(), batch, false)[0]
			var refused *entity.RefusedError
			if test.class != "" {
				check.Require(t, errors.As(batch[0].Target.Err, &refused) && refused.Class == test.class,
					"Plan = %v, want it refused as %s", batch[0].Target.Err, test.class)
				return
			}
			check.Require(t, batch[0].Target.Err == nil, "Plan = %v", batch[0].Target.Err)
			got := r.Publish(t.Context(), batch)[0]
			check.Require(t, got.Verdict == entity.Acknowledged, "Publish = %+v", got)
			var headers []string
			for _, h := range l.records[part(batch[0].Target.Partition)][0].Headers {
				if !strings.HasPrefix(h.Key, "dlq-") {
					headers = append(headers, h.Key)
				}
			}
			check.Equal(t, strings.Join(headers, " "), test.want, "headers")
		})
	}
}

// TestPublishDuringALongThrottle: the broker's pause outlasts the claim. The message keeps its attempt.
func TestPublishDuringALongThrottle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLogs()
		r := newRepublisher(t, l)
		batch := claimed(t, r, message())
		l.rest(part(batch[0].Target.Partition), time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		got := r.Publish(ctx, batch)[0]
		check.True(t, got.Verdict == entity.GivenBack && len(l.records[part(batch[0].Target.Partition)]) == 0, "Publish = %+v, want it given back", got)
	})
}

// TestPublishWhileABrokerRests: many partitions of a broker that asks for a pause, and values that a broker must be asked
// for, do not delay messages for other brokers. When the pause is over, the others are sent.
func TestPublishWhileABrokerRests(t *testing.T) {
	t.Parallel()
	const many = 4 * parallel
	sum := sha256.Sum256([]byte("large"))
	on := func(p int32, large bool) entity.Message {
		return message(func(m *entity.Message) {
			m.Origin.Partition = &p
			if m.Source.Partition = p % 2; large { // the broker of partition 0 rests
				m.Record = entity.Record{Key: []byte("k"), State: entity.ValueOverLimit, SHA256: sum[:], Size: 5}
			}
		})
	}
	for name, test := range map[string]struct {
		large bool
		rests func(l *logs) // what asks for a pause of a minute
	}{
		"Target": {false, func(l *logs) {
			for p := int32(0); p < many; p += 2 {
				l.rest(part(p), time.Minute)
			}
		}},
		"TargetOfLargeValues": {true, func(l *logs) {
			for p := int32(0); p < many; p += 2 {
				l.rest(part(p), time.Minute)
			}
		}},
		"SourceOfLargeValues": {true, func(l *logs) { l.rest(broker.TopicPartition{Topic: deadLetter}, time.Minute) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLogs()
				l.topics[orders], l.topics[deadLetter] = many, 2
				for p := range int32(2) {
					l.records[broker.TopicPartition{Topic: deadLetter, Partition: p}] = []broker.Record{{Offset: 7, Value: []byte("large")}}
				}
				r := newRepublisher(t, l)
				var messages []entity.Message
				for p := range int32(many) {
					messages = append(messages, on(p, test.large))
				}
				batch := claimed(t, r, messages...)
				test.rests(l)
				began := time.Now()
				done := make(chan []entity.Delivery)
				go func() { done <- r.Publish(t.Context(), batch) }()
				synctest.Wait()
				for p := range int32(many) {
					check.Equal(t, l.count(part(p)), int(p%2), "records of partition %d during the pause", p)
				}
				for i, d := range <-done {
					check.Equal(t, d.Verdict, entity.Acknowledged, "delivery %d", i)
				}
				check.Equal(t, time.Since(began), time.Minute, "time of the call")
			})
		})
	}
}

// TestPublishOfAValueThatMayNotBeRead: the user lost the permission to read the dead-letter topic after the plan. That
// uses no attempt, and does not end with a dead message.
func TestPublishOfAValueThatMayNotBeRead(t *testing.T) {
	t.Parallel()
	sum := sha256.Sum256([]byte("value"))
	l := newLogs()
	l.records[broker.TopicPartition{Topic: deadLetter}] = []broker.Record{{Offset: 7, Value: []byte("value")}}
	r := newRepublisher(t, l)
	batch := []entity.Outgoing{{Message: message(func(m *entity.Message) {
		m.Source.Topic, m.Source.Partition, m.Source.Offset = deadLetter, 0, 7
		m.Record = entity.Record{State: entity.ValueOverLimit, SHA256: sum[:], Size: 5}
	})}}
	batch[0].Target = r.Plan(t.Context(), batch, false)[0]
	check.Require(t, batch[0].Target.Err == nil, "Plan = %v", batch[0].Target.Err)
	later := claimed(t, r, message(func(m *entity.Message) { m.Origin.Partition = &batch[0].Target.Partition }))
	l.readAt = broker.ErrUnauthorized
	got := r.Publish(t.Context(), append(batch, later...))
	check.True(t, got[0].Verdict == entity.Refused && got[0].Class == entity.Unauthorized && got[0].OfValue, "Publish = %+v, want it refused", got[0])
	check.Equal(t, got[1].Verdict, entity.Acknowledged, "verdict of the next message for the same partition")

	for class, err := range map[entity.ErrorClass]error{entity.Unauthorized: broker.ErrUnauthorized, entity.UnknownTopic: broker.ErrUnknownTopic} {
		l.errs[broker.TopicPartition{Topic: deadLetter}] = err
		refused := check.As[*entity.RefusedError](t, r.Plan(t.Context(), plain(batch[0].Message), false)[0].Err, "Plan")
		check.True(t, refused.Class == class && refused.OfMessage() && !refused.Missing, "Plan = %+v, want a refusal of the value", refused)
	}
}

func TestDisabled(t *testing.T) {
	t.Parallel()
	messages := []entity.Message{message(), message(to(""))}
	d := NewDisabled(Config{}, zap.NewNop())
	for _, target := range d.Plan(t.Context(), plain(messages...), true) {
		check.True(t, target.Err == nil, "Plan error = %v, want nil", target.Err)
	}
	for _, delivery := range d.Publish(t.Context(), make([]entity.Outgoing, 2)) {
		check.True(t, delivery.Verdict == entity.Skipped, "Publish = %+v, want skipped", delivery)
	}
	if got := d.FindMany(t.Context(), []entity.Claim{{ID: uuid.New()}})[0]; got.Verdict != entity.InDoubt || got.Class == entity.UnknownClass {
		t.Errorf("FindMany = %+v, want a doubt that may be settled later", got)
	}
	required := NewDisabled(Config{RepublishRequired: new(true)}, zap.NewNop())
	check.Is(t, required.Plan(t.Context(), plain(messages...), false)[0].Err, entity.ErrConflict, "Plan error")
}

// TestSuspendedBeforeSending: a process that was suspended after it had compared the deadline with the clock sends nothing
// once the deadline and the time limit of one record have passed.
func TestSuspendedBeforeSending(t *testing.T) {
	t.Parallel()
	r := newRepublisher(t, newLogs())
	r.cfg.Timeout = time.Hour // so long that a slow test does not matter
	for name, c := range map[string]struct {
		late  time.Duration
		sends bool
	}{
		"in time": {-time.Minute, true}, "late": {r.cfg.Timeout / 2, true}, "too late": {r.cfg.Timeout, false},
	} {
		ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-c.late))
		defer cancel()
		sending, end := withTimeout(ctx, r.cfg.Timeout)
		defer end()
		check.Same(t, sending.Err() == nil, c.sends, "%s: sends", name)
	}
}
