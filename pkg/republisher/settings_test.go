package republisher

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

func small() map[string]map[string]string {
	return map[string]map[string]string{orders: {maxMessageBytes: "500", compressionType: "producer", cleanupPolicy: "delete"}}
}

// TestSettings_Cached: all plans of a minute share one request for a topic's settings; then a change is seen.
func TestSettings_Cached(t *testing.T) {
	t.Parallel()
	l := newLogs()
	l.configs = small()
	r := newRepublisher(t, l)
	now := clock
	r.now = func() time.Time { return now }
	large := plain(message(value(random(600))))
	plan := func() error { return r.Plan(t.Context(), large, false)[0].Err }
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { check.As[*entity.RefusedError](t, plan(), "Plan") })
	}
	all.Wait()
	check.Equal(t, len(l.looked), 1, "requests")
	l.configs[orders][maxMessageBytes] = "1000"
	now = now.Add(settingsFresh - time.Second)
	check.As[*entity.RefusedError](t, plan(), "Plan within the minute")
	now = now.Add(time.Second)
	check.NoError(t, plan())
	check.Equal(t, len(l.looked), 2, "requests")
}

// TestSettings_NotKnown: nothing is refused for settings that Kafka does not tell, and a plan waits for them once in a
// minute.
func TestSettings_NotKnown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLogs() // without a permission, Kafka tells no settings
		r := newRepublisher(t, l)
		large := plain(message(value(random(600)), func(m *entity.Message) { m.Record.Key = nil }))
		check.NoError(t, r.Plan(t.Context(), large, false)[0].Err)

		l.configs, l.silent = small(), true
		r = newRepublisher(t, l)
		r.now = time.Now
		for _, want := range []time.Duration{settingsTimeout, 0, 0} {
			began := time.Now()
			check.NoError(t, r.Plan(t.Context(), large, false)[0].Err)
			check.Equal(t, time.Since(began), want, "time of a plan")
		}
		wait.Sleep(t.Context(), settingsFresh)
		l.silent = false
		check.As[*entity.RefusedError](t, r.Plan(t.Context(), large, false)[0].Err, "Plan after a minute")
	})
}

// TestSettings_OfAnEdit: the edited record is checked, and a value that is read when it is sent is checked then.
func TestSettings_OfAnEdit(t *testing.T) {
	t.Parallel()
	l := newLogs()
	l.configs = small()
	l.configs[orders][cleanupPolicy] = "compact"
	r := newRepublisher(t, l)
	keyless := func(m *entity.Message) { m.Record.Key = nil }
	edits := func(e *entity.Edit, changes ...func(*entity.Message)) error {
		return r.Plan(t.Context(), []entity.Outgoing{{Message: message(changes...), Edit: e}}, false)[0].Err
	}
	check.NoError(t, edits(&entity.Edit{SetValue: true, Value: []byte("small")}, value(random(600))))
	check.As[*entity.RefusedError](t, edits(&entity.Edit{SetValue: true, Value: random(600)}), "Plan of a large edit")
	check.NoError(t, edits(&entity.Edit{SetKey: true, Key: []byte("k")}, keyless))
	check.NoError(t, edits(nil, func(m *entity.Message) { m.Record.Key = []byte{} }))
	check.As[*entity.RefusedError](t, edits(nil, keyless), "Plan without a key")

	r = newRepublisher(t, l, func(c *Config) { c.RepublishKey = KeyUUID })
	check.NoError(t, r.Plan(t.Context(), plain(message(keyless)), false)[0].Err)
}
