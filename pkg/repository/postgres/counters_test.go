package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

func TestCounters(t *testing.T) {
	t.Parallel()

	withDB(t, "AreExactAfterEverySingleKindOfChange", func(t *testing.T, db *sqlx.DB) {
		for _, change := range []string{
			`INSERT INTO dlq.dlq_messages (original_topic, error_message, status) SELECT 't' || n % 3, 'e', (ARRAY['PENDING','DEAD','RESOLVED'])[1 + n % 3] FROM generate_series(1, 60) n`,
			`UPDATE dlq.dlq_messages SET status = 'RETRYING' WHERE status = 'PENDING'`,
			`UPDATE dlq.dlq_messages SET original_topic = 't9' WHERE original_topic = 't1'`,
			`UPDATE dlq.dlq_messages SET dlq_topic_id = 4 WHERE status = 'DEAD'`,
			`UPDATE dlq.dlq_messages SET error_message = 'other'`,
			`UPDATE dlq.dlq_messages SET status = 'DEAD' WHERE false`,
			`DELETE FROM dlq.dlq_messages WHERE status = 'RETRYING'`,
			`INSERT INTO dlq.dlq_messages (id, original_topic, error_message) SELECT id, 'again', 'e' FROM dlq.dlq_messages ON CONFLICT (id) DO UPDATE SET original_topic = excluded.original_topic`,
			`MERGE INTO dlq.dlq_messages m USING (SELECT id FROM dlq.dlq_messages LIMIT 5) s ON m.id = s.id WHEN MATCHED THEN DELETE`,
			`INSERT INTO dlq.dlq_messages (original_topic, error_message, group_id, created_at) SELECT 't' || n % 3, 'e', md5((n % 4)::text)::uuid, now() - n * interval '7 min' FROM generate_series(1, 60) n`,
			`INSERT INTO dlq.dlq_messages (original_topic, error_message, group_id, created_at) VALUES ('t', 'e', md5('0')::uuid, '-infinity'), ('t', 'e', md5('0')::uuid, 'infinity'), ('t', 'e', md5('0')::uuid, '0044-03-15 BC')`,
			`UPDATE dlq.dlq_messages SET group_id = md5('4')::uuid WHERE group_id IS NULL`,
			`UPDATE dlq.dlq_messages SET group_id = md5('5')::uuid, original_topic = 't5', status = 'DEAD' WHERE group_id = md5('1')::uuid`,
			`UPDATE dlq.dlq_messages SET group_id = NULL WHERE group_id = md5('2')::uuid`,
			`UPDATE dlq.dlq_messages SET original_topic = 't6' WHERE original_topic = 't2'`,
			`DELETE FROM dlq.dlq_messages WHERE group_id = md5('3')::uuid`,
			`UPDATE dlq.dlq_messages SET dlq_topic_id = 5, status = CASE status WHEN 'DEAD' THEN 'PENDING' ELSE 'DEAD' END`,
			`UPDATE dlq.dlq_messages SET group_id = CASE group_id WHEN md5('4')::uuid THEN md5('0')::uuid ELSE md5('4')::uuid END, original_topic = 't7' WHERE group_id IN (md5('4')::uuid, md5('0')::uuid)`,
			`UPDATE dlq.dlq_messages SET status = 'RESOLVED' WHERE group_id IS NOT NULL`,
			`CALL dlq.archive_old_dlq_messages(0, 7)`,
			`TRUNCATE dlq.dlq_messages`,
			`INSERT INTO dlq.dlq_messages (original_topic, error_message, group_id) VALUES ('t', 'e', NULL), ('t', 'e', md5('0')::uuid)`,
		} {
			exec(t, db, change)
			check.Require(t, wantExactCounters(t, db), "after %s", change)
		}
	})

	withDB(t, "AreExactAfterARollback", func(t *testing.T, db *sqlx.DB) {
		seedTen(t, db, "DEAD", "2001-01-01")
		tx := check.Must(db.Beginx())(t)
		tx.MustExec(`DELETE FROM dlq.dlq_messages`)
		check.NoError(t, tx.Rollback())
		wantExactCounters(t, db)
	})

	withDB(t, "AreExactUnderEightSessionsThatNeverDeadlock", func(t *testing.T, db *sqlx.DB) {
		db.SetMaxOpenConns(12)
		m := newMix(t, db)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var all sync.WaitGroup
		for session := range 8 {
			all.Go(func() { m.session(ctx, session) })
		}
		all.Wait()
		wantExactCounters(t, db)
		m.wantCounts(t)
		m.wantArrivals(t)
	})
}

// TestFinishInOppositeOrders: two callers of Finish, such as a late worker and the settler, end the same attempts in
// opposite orders. Each attempt is ended exactly once.
func TestFinishInOppositeOrders(t *testing.T) {
	db := freshDB(t)
	store := New(db)
	for round := range 40 {
		m := &mix{store: store, db: db}
		exec(t, db, `INSERT INTO dlq.dlq_messages (original_topic, error_message) SELECT 'orders', 'boom' FROM generate_series(1, 60)`)
		m.claim(t.Context(), rand.New(rand.NewPCG(1, uint64(round))), 60, false)
		backwards := make([]repository.Claim, len(m.claims))
		for i, c := range m.claims {
			backwards[len(m.claims)-1-i] = c
		}
		var ended [2]int
		var errs [2]error
		var both sync.WaitGroup
		for i, claims := range [][]repository.Claim{m.claims, backwards} {
			both.Go(func() {
				finished, err := store.Finish(t.Context(), results(claims, entity.Acknowledged), entity.By("test"))
				ended[i], errs[i] = len(finished), err
			})
		}
		both.Wait()
		check.NoError(t, errors.Join(errs[:]...))
		check.Require(t, ended[0]+ended[1] == 60, "round %d: ended %v attempts, want each once: 60", round, ended)
	}
	wantExactCounters(t, db)
}

// mix runs random changes in several sessions. It contains the store and the state that the sessions share.
type mix struct {
	db    *sqlx.DB
	store *Store
	ref   repository.TopicRef

	mu     sync.Mutex
	claims []repository.Claim
	failed []error
	done   map[string]int
}

func newMix(t *testing.T, db *sqlx.DB) *mix {
	t.Helper()
	m := &mix{db: db, store: New(db), done: map[string]int{}}
	refs := check.Must(m.store.OpenTopics(t.Context(), []repository.Topic{{Name: "orders.dlq", Incarnation: "1"}}))(t)
	m.ref = refs[0]
	exec(t, db, `UPDATE dlq.search_index SET version = 1`)
	exec(t, db, `CREATE TABLE public.grouped (id UUID)`)
	exec(t, db, `CREATE FUNCTION public.note_group() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF NEW.group_id IS NOT NULL AND (TG_OP = 'INSERT' OR OLD.group_id IS NULL) THEN INSERT INTO public.grouped VALUES (NEW.id); END IF;
		RETURN NULL; END $$`)
	exec(t, db, `CREATE TRIGGER note_group AFTER INSERT OR UPDATE ON dlq.dlq_messages FOR EACH ROW EXECUTE FUNCTION public.note_group()`)
	var known []entity.Fingerprint
	for n := range mixGroups {
		known = append(known, entity.Fingerprint{Title: fmt.Sprint("group ", n)})
	}
	check.NoError(t, m.store.SaveFingerprints(t.Context(), known))
	return m
}

func (m *mix) session(ctx context.Context, number int) {
	random := rand.New(rand.NewPCG(20_240_229, uint64(number)))
	at := repository.Position{Partition: repository.Partition{Incarnation: m.ref.Incarnation, Partition: int32(number)}}
	if _, err := m.store.OpenPosition(ctx, []repository.Position{at}); err != nil {
		m.fail("open", err)
	}
	for range 120 {
		switch n := random.IntN(100); {
		case n < 25:
			size := 1 + random.IntN(20)
			m.fail("ingest", m.ingest(ctx, random, at, size))
			at.Next += int64(size)
		case n < 28:
			m.exec(ctx, "insert", `INSERT INTO dlq.dlq_messages (original_topic, error_message)
				SELECT 'topic' || n % 4, 'by hand' FROM generate_series(1, $1::int) n`, 1+random.IntN(10))
		case n < 32:
			m.group(ctx, random, 1+random.IntN(20))
		case n < 55:
			m.claim(ctx, random, 1+random.IntN(30), random.IntN(2) == 0)
		case n < 80:
			m.finish(ctx, random)
		case n < 85:
			m.one(ctx, "delete", "PENDING RETRYING RESOLVED DEAD", func(ctx context.Context, id uuid.UUID) error { return m.store.Delete(ctx, id, entity.By("test")) })
		case n < 87:
			m.remove(ctx, random, 1+random.IntN(20))
		case n < 89:
			m.one(ctx, "requeue", "DEAD", func(ctx context.Context, id uuid.UUID) error {
				_, err := m.store.Requeue(ctx, id, entity.By("test"))
				return err
			})
		case n < 93:
			m.one(ctx, "give up", "PENDING RETRYING", func(ctx context.Context, id uuid.UUID) error {
				_, err := m.store.MarkDead(ctx, id, entity.By("test"))
				return err
			})
		case n < 97:
			_, err := m.store.ArchiveOld(ctx, 0, 1+random.IntN(50))
			m.fail("archive", err)
		case n < 99:
			_, err := m.store.List(ctx, "topic1", repository.Page{Number: 1, Size: 5})
			m.fail("list", err)
		default:
			m.exec(ctx, "truncate", `TRUNCATE dlq.dlq_messages`)
		}
	}
}

func (m *mix) ingest(ctx context.Context, random *rand.Rand, at repository.Position, size int) error {
	batch := repository.Batch{Ranges: []repository.Range{{Partition: at.Partition, From: at.Next, To: at.Next + int64(size)}}}
	for i := range size {
		msg := entity.NewMessage(fmt.Sprintf("topic%d", random.IntN(4)), "boom", time.Unix(0, 0))
		msg.Record.Value = []byte(`{}`)
		msg.Source = entity.Source{
			Topic: "orders.dlq", TopicID: m.ref.TopicID, Incarnation: m.ref.Incarnation,
			Partition: at.Partition.Partition, Offset: at.Next + int64(i),
		}
		if random.IntN(5) == 0 {
			msg.Status = entity.Dead
		}
		if random.IntN(5) > 0 {
			msg.Group = mixGroup(random).ID()
		}
		batch.Messages = append(batch.Messages, msg)
	}
	stored, err := m.store.Store(ctx, batch)
	if err == nil && len(stored.Ranges) != 1 {
		err = fmt.Errorf("stored %v, want the range", stored)
	}
	return err
}

// mixGroups is the number of error groups. It is small, so that the sessions conflict with each other.
const mixGroups = 5

func mixGroup(random *rand.Rand) entity.Fingerprint {
	return entity.Fingerprint{Title: fmt.Sprint("group ", random.IntN(mixGroups))}
}

// group stores documents of random messages as the indexer does; the documents assign error groups to messages that
// have none.
func (m *mix) group(ctx context.Context, random *rand.Rand, n int) {
	var ids []uuid.UUID
	if err := m.db.SelectContext(ctx, &ids, `SELECT id FROM dlq.dlq_messages ORDER BY group_id IS NOT NULL, md5(id::text || $2::text) LIMIT $1`,
		2*n, random.Uint32()); err != nil {
		m.fail("pick", err)
		return
	}
	fingerprint := mixGroup(random)
	documents := make([]entity.Document, len(ids))
	for i, id := range ids {
		documents[i] = entity.Document{MessageID: id, Text: "mix", Terms: []int64{1}, Fingerprint: &fingerprint}
	}
	m.fail("group", m.store.StoreDocuments(ctx, 1, documents))
}

// remove deletes many messages at once, in random order.
func (m *mix) remove(ctx context.Context, random *rand.Rand, n int) {
	var ids []uuid.UUID
	if err := m.db.SelectContext(ctx, &ids, `SELECT id FROM dlq.dlq_messages ORDER BY md5(id::text || $2::text) LIMIT $1`, n, random.Uint32()); err != nil {
		m.fail("pick", err)
		return
	}
	_, err := m.store.Change(ctx, repository.Change{Action: entity.RedriveDelete, IDs: ids}, entity.By("test"))
	m.fail("remove", err)
}

// claim claims random messages, in random order, as workers of different redrives do.
func (m *mix) claim(ctx context.Context, random *rand.Rand, n int, wait bool) {
	var ids []uuid.UUID
	if err := m.db.SelectContext(ctx, &ids, `SELECT id FROM dlq.dlq_messages WHERE status IN ('PENDING', 'RETRYING') ORDER BY md5(id::text || $2::text) LIMIT $1`,
		n, random.Uint32()); err != nil {
		m.fail("pick", err)
		return
	}
	claims := make([]repository.Claim, len(ids))
	for i, id := range ids {
		claims[i] = repository.Claim{MessageID: id, ID: uuid.New(), Topic: "orders"}
	}
	taken, err := m.store.Claim(ctx, claims, repository.Claiming{Expiry: time.Minute, Wait: wait, Cause: entity.By("alice")})
	m.fail("claim", err)
	held := make(map[uuid.UUID]bool, len(taken))
	for _, msg := range taken {
		held[msg.ID] = true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range claims {
		if held[c.MessageID] {
			m.claims = append(m.claims, c)
		}
	}
}

// finish ends attempts that any of the sessions has begun, some of them for the second time.
func (m *mix) finish(ctx context.Context, random *rand.Rand) {
	m.mu.Lock()
	var ended []repository.Claim
	for range min(25, len(m.claims)) {
		ended = append(ended, m.claims[random.IntN(len(m.claims))])
	}
	if len(m.claims) > 200 {
		m.claims = m.claims[100:]
	}
	m.mu.Unlock()

	seen := map[uuid.UUID]bool{}
	var unique []repository.Claim
	for _, c := range ended {
		if !seen[c.MessageID] {
			unique = append(unique, c)
		}
		seen[c.MessageID] = true
	}
	verdicts := []entity.Verdict{entity.Acknowledged, entity.Failed, entity.Rejected, entity.GivenBack, entity.Refused, entity.Rescued}
	_, err := m.store.Finish(ctx, results(unique, verdicts[random.IntN(len(verdicts))]), entity.By("test"))
	m.fail("finish", err)
}

func results(claims []repository.Claim, verdict entity.Verdict) []repository.Result {
	all := make([]repository.Result, len(claims))
	for i, c := range claims {
		all[i] = repository.Result{MessageID: c.MessageID, ClaimID: c.ID, Verdict: verdict, Offset: -1}
	}
	return all
}

// one calls the function do with the id of a message in one of the given states, if there is such a message.
func (m *mix) one(ctx context.Context, what, states string, do func(context.Context, uuid.UUID) error) {
	var ids []uuid.UUID
	if err := m.db.SelectContext(ctx, &ids, `SELECT id FROM dlq.dlq_messages
		WHERE status = ANY (string_to_array($1, ' ')) ORDER BY random() LIMIT 1`, states); err != nil || len(ids) == 0 {
		m.fail("pick", err)
		return
	}
	m.fail(what, do(ctx, ids[0]))
}

func (m *mix) exec(ctx context.Context, what, query string, args ...any) {
	_, err := m.db.ExecContext(ctx, query, args...)
	m.fail(what, err)
}

// fail records an error, unless the storage contract allows it.
func (m *mix) fail(what string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.done != nil && err == nil {
		m.done[what]++
	}
	if err != nil && !errors.Is(err, entity.ErrConflict) && !errors.Is(err, entity.ErrNotFound) {
		m.failed = append(m.failed, fmt.Errorf("%s: %w", what, err))
	}
}

func (m *mix) wantCounts(t *testing.T) {
	t.Helper()
	for i, err := range m.failed {
		check.True(t, i >= 5, "got %v, want no error", err)
	}
	for _, what := range []string{"ingest", "insert", "claim", "finish", "delete", "requeue", "give up", "archive", "truncate", "group", "remove"} {
		check.True(t, m.done[what] != 0, "the mix had no %s that succeeded, want some: %v", what, m.done)
	}
	counts := check.Must(m.store.Counts(t.Context()))(t)
	var told, there int64
	for _, c := range counts {
		told += c.Messages
	}
	check.NoError(t, m.db.Get(&there, `SELECT count(*) FROM dlq.dlq_messages`))
	check.Same(t, told, there, "messages in Counts")
}

// wantArrivals checks that each message that ever had an error group was counted as an arrival exactly once, whatever
// happened to the message later.
func (m *mix) wantArrivals(t *testing.T) {
	t.Helper()
	var told, grouped int64
	check.NoError(t, m.db.Get(&told, `SELECT sum(messages) FROM dlq.group_arrivals WHERE hour = '-infinity'`))
	check.NoError(t, m.db.Get(&grouped, `SELECT count(*) FROM public.grouped`))
	check.Same(t, told, grouped, "messages arrived in groups")
	groups := check.Must(m.store.ErrorGroups(t.Context(), repository.GroupQuery{Limit: 100}))(t)
	var arrived, there, rows int64
	for _, g := range groups {
		arrived += g.Arrived
		for _, n := range g.Counts {
			there += n
		}
	}
	check.NoError(t, m.db.Get(&rows, `SELECT count(*) FROM dlq.dlq_messages WHERE group_id IS NOT NULL`))
	if len(groups) != mixGroups || arrived != told || there != rows {
		t.Errorf("ErrorGroups has %d groups, %d arrived, %d there, want %d, %d and %d", len(groups), arrived, there, mixGroups, told, rows)
	}
}

// wantExactCounters compares every counter with the number of rows that it counts.
func wantExactCounters(t *testing.T, db *sqlx.DB) bool {
	t.Helper()
	wrong := postgrestest.All[string](t, db, `
		SELECT format('%s, dead-letter topic %s, %s: counter %s, rows %s', original_topic, dlq_topic_id, status, told, there)
		FROM (SELECT original_topic, dlq_topic_id, status, sum(messages) AS told
		      FROM dlq.message_counters GROUP BY 1, 2, 3) c
		FULL JOIN (SELECT original_topic::text, coalesce(dlq_topic_id, 0) AS dlq_topic_id, status::text, count(*) AS there
		      FROM dlq.dlq_messages GROUP BY 1, 2, 3) m USING (original_topic, dlq_topic_id, status)
		WHERE coalesce(told, 0) <> coalesce(there, 0)`)
	wrong = append(wrong, wrongGroups(t, db)...)
	for _, w := range wrong {
		t.Error(w)
	}
	return len(wrong) == 0
}

// wrongGroups compares the counters of error groups with the messages and returns the differences. A group's number of
// all arrivals must be the sum of its hourly arrivals, and at least its number of stored messages.
func wrongGroups(t *testing.T, db *sqlx.DB) (wrong []string) {
	t.Helper()
	check.NoError(t, db.Select(&wrong, `
		SELECT format('group %s of %s, %s: counter %s, rows %s', group_id, original_topic, status, told, there)
		FROM (SELECT group_id, original_topic, status, sum(messages) AS told FROM dlq.group_counters GROUP BY 1, 2, 3) c
		FULL JOIN (SELECT group_id, original_topic::text, status::text, count(*) AS there
		      FROM dlq.dlq_messages WHERE group_id IS NOT NULL GROUP BY 1, 2, 3) m USING (group_id, original_topic, status)
		WHERE coalesce(told, 0) <> coalesce(there, 0)
		UNION ALL
		SELECT format('group %s of %s: %s came ever, %s by the hour, %s are there', group_id, original_topic, ever, hourly, there)
		FROM (SELECT group_id, original_topic, coalesce(sum(messages) FILTER (WHERE hour = '-infinity'), 0) AS ever,
		             coalesce(sum(messages) FILTER (WHERE hour > '-infinity'), 0) AS hourly
		      FROM dlq.group_arrivals GROUP BY 1, 2) a
		FULL JOIN (SELECT group_id, original_topic::text, count(*) AS there
		      FROM dlq.dlq_messages WHERE group_id IS NOT NULL AND isfinite(created_at) GROUP BY 1, 2) m USING (group_id, original_topic)
		WHERE ever IS NULL OR ever <> hourly OR ever < coalesce(there, 0)`))
	return wrong
}
