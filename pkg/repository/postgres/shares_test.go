package postgres

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// deadLetters returns a batch of dead letters that share group g wrote for records of partition 0 of topic orders.
func (f *feed) deadLetters(value []byte, offsets ...int64) repository.Batch {
	b := f.batch(0, make([]entity.Record, len(offsets))...)
	for i, offset := range offsets {
		m := &b.Messages[i]
		m.Record = entity.Record{Value: value, Headers: []entity.Header{{Key: "__dlq.errors.topic", Value: []byte("orders")}}, Size: int64(len(value))}
		m.Failure.Dialect, m.Failure.ConsumerGroup = "sharegroup", "g"
		m.Origin.Partition, m.Origin.Offset = new(int32), &offset
		m.Share = &entity.ShareRecord{State: entity.CompletionWaiting, Digest: entity.DeadLetterDigest(nil, value)}
	}
	return b
}

func (f *feed) storeBatch(t *testing.T, b repository.Batch) {
	t.Helper()
	stored := check.Must(f.store.Store(t.Context(), b))(t)
	check.Len(t, stored.Ranges, len(b.Ranges), "stored ranges")
}

// wantDuplicates checks the numbers of repeats that were counted for each message, in the order of the messages'
// original offsets.
func wantDuplicates(t *testing.T, db *sqlx.DB, want ...string) {
	t.Helper()
	check.Equal(t, postgrestest.All[string](t, db, `
		SELECT format('%s+%s', m.original_offset, s.duplicates) FROM dlq.dlq_messages m LEFT JOIN dlq.share_records s ON s.message_id = m.id
		ORDER BY m.original_offset, m.dlq_topic_id, m.dlq_offset`), want, "messages with their duplicates")
}

// TestRepeatsOfShareGroups: a dead letter that repeats another dead letter, of the same batch or of an earlier one, is
// counted exactly once, for the message of that other dead letter. A dead letter with another value, of another share
// group or in another dead-letter topic becomes a separate message, and so does a repeat of a final message.
func TestRepeatsOfShareGroups(t *testing.T) {
	db := freshDB(t)
	f := newFeed(t, New(db))
	first := f.deadLetters(nil, 5, 6, 5)
	f.storeBatch(t, first)
	wantDuplicates(t, db, "5+1", "6+0")

	later := f.deadLetters(nil, 6, 7, 5, 6)
	later.Messages[0].ErrorMessage = "another text"
	f.storeBatch(t, later)
	wantDuplicates(t, db, "5+2", "6+2", "7+0")
	stored := check.Must(f.store.Store(t.Context(), later))(t) // a second Store, as from an ingester that lost its partitions, stores nothing
	check.Len(t, stored.Ranges, 0, "stored ranges")
	wantDuplicates(t, db, "5+2", "6+2", "7+0")

	f.storeBatch(t, f.deadLetters([]byte("forged"), 6))
	wantDuplicates(t, db, "5+2", "6+2", "6+0", "7+0")

	exec(t, db, `UPDATE dlq.dlq_messages SET status = 'DEAD' WHERE original_offset = 7`)
	f.storeBatch(t, f.deadLetters(nil, 7))
	wantDuplicates(t, db, "5+2", "6+2", "6+0", "7+0", "7+0")

	other := f.deadLetters(nil, 5)
	other.Messages[0].Failure.ConsumerGroup = "other"
	f.storeBatch(t, other)
	wantDuplicates(t, db, "5+2", "5+0", "6+2", "6+0", "7+0", "7+0")

	refs := check.Must(f.store.OpenTopics(t.Context(), []repository.Topic{{Name: "forged.dlq.v1", Incarnation: "y"}}))(t)
	elsewhere := &feed{store: f.store, ref: refs[0]}
	check.Must(f.store.OpenPosition(t.Context(), []repository.Position{{Partition: elsewhere.partition()}}))(t)
	elsewhere.storeBatch(t, elsewhere.deadLetters(nil, 5))
	wantDuplicates(t, db, "5+2", "5+0", "5+0", "6+2", "6+0", "7+0", "7+0")
	check.Equal(t, check.Must(f.store.Get(t.Context(), first.Messages[0].ID, -1))(t).Share,
		&entity.ShareRecord{State: entity.CompletionWaiting, Duplicates: 2}, "Share of a loaded message")
}

// TestRepeatOfAMessageThatEnds: after Store has recognised a repeat, and before it counts the repeat, the repeated
// message becomes final or is deleted. Store must then store the repeat as a message of its own.
func TestRepeatOfAMessageThatEnds(t *testing.T) {
	for name, end := range map[string]string{
		"final":   `UPDATE dlq.dlq_messages SET status = 'DEAD'`,
		"deleted": `DELETE FROM dlq.dlq_messages`,
	} {
		t.Run(name, func(t *testing.T) {
			db := freshDB(t)
			f := newFeed(t, New(db))
			f.storeBatch(t, f.deadLetters(nil, 5))
			tx := check.Must(db.BeginTxx(t.Context(), nil))(t)
			defer func() { _ = tx.Rollback() }()
			check.Must(tx.ExecContext(t.Context(), end))(t)

			repeat := f.deadLetters(nil, 5, 6)
			ended := make(chan error, 1)
			go func() { ended <- check.Err(f.store.Store(t.Context(), repeat)) }()
			eventually(t, db, "the batch waits for the message", strings.Replace(waitingQuery, "$1", "'%open AS MATERIALIZED%'", 1))
			check.NoError(t, tx.Commit())
			check.NoError(t, <-ended)
			check.Equal(t, postgrestest.All[string](t, db, `
				SELECT format('%s+%s', m.original_offset, s.duplicates) FROM dlq.dlq_messages m JOIN dlq.share_records s ON s.message_id = m.id
				WHERE m.status = 'PENDING' ORDER BY 1`), []string{"5+0", "6+0"}, "open messages with their duplicates")
		})
	}
}

// TestRepeatBesideARefusedRecord: a repeat is still counted exactly once when PostgreSQL refuses another record of its
// batch.
func TestRepeatBesideARefusedRecord(t *testing.T) {
	db := freshDB(t)
	f := newFeed(t, New(db))
	refuse(t, db)
	f.storeBatch(t, f.deadLetters(nil, 1))
	b := f.deadLetters(nil, 2, 1, 3, 4)
	b.Messages[2].Record.Value = []byte("refused")
	f.storeBatch(t, b)
	wantDuplicates(t, db, "1+1", "2+0", "4+0")
	wantCounts(t, db, 3, 1)
}

// take leases all pointers that are due with TakePointers, and returns them by the original offset of their message.
func (f *feed) take(t *testing.T) map[int64]repository.Pointer {
	t.Helper()
	pointers := map[int64]repository.Pointer{}
	for _, p := range check.Must(f.store.TakePointers(t.Context(), 100, 1<<20, time.Minute))(t) {
		pointers[*p.Message.Origin.Offset] = p
	}
	return pointers
}

func completed(p repository.Pointer, value string) repository.Completion {
	return repository.Completion{
		Message: p.Message, State: entity.Completed, Timestamp: time.UnixMilli(1_700_000_000_000).UTC(),
		Record: entity.Record{Key: []byte("k"), Value: []byte(value), Headers: []entity.Header{{Key: "trace", Value: []byte("t")}}, Size: int64(len(value))},
	}
}

// TestTakePointersLimitsBytes: the list of taken pointers ends when the headers of its messages reach the limit. The
// other messages are still due.
func TestTakePointersLimitsBytes(t *testing.T) {
	db := freshDB(t)
	f := newFeed(t, New(db))
	b := f.deadLetters(nil, 1, 2, 3)
	for i := range b.Messages {
		m := &b.Messages[i]
		m.Record.Key = bytes.Repeat([]byte("k"), 4000)
		m.Record.Headers = append(m.Record.Headers, entity.Header{Key: "large", Value: bytes.Repeat([]byte("h"), 1000)})
	}
	f.storeBatch(t, b)
	for _, want := range []int{2, 1, 0} {
		taken := check.Must(f.store.TakePointers(t.Context(), 100, 1500, time.Minute))(t)
		check.Len(t, taken, want, "pointers")
		for _, p := range taken {
			check.True(t, len(p.Message.Record.Headers) == 2 && p.Message.Record.Key == nil, "pointer has %d headers and a key of %d bytes",
				len(p.Message.Record.Headers), len(p.Message.Record.Key))
		}
	}
}

// TestPointerIsGivenBack: a pointer that a caller gives back untried is due again at once, and its number of tries is
// the same as before.
func TestPointerIsGivenBack(t *testing.T) {
	db := freshDB(t)
	f := newFeed(t, New(db))
	f.storeBatch(t, f.deadLetters(nil, 1))
	for range 3 {
		due := f.take(t)
		check.True(t, len(due) == 1 && due[1].Tries == 0, "pointers %+v, want one that was never tried", due)
		back := repository.Completion{Message: due[1].Message, State: entity.CompletionWaiting, Again: time.Microsecond, Untried: true}
		check.NoError(t, check.Err(f.store.SaveCompletions(t.Context(), []repository.Completion{back}, nil)))
	}
}

// TestRestoredPointerIsDue: when a message was archived before its record was read, its pointer is due again after the
// message was restored.
func TestRestoredPointerIsDue(t *testing.T) {
	db := freshDB(t)
	f := newFeed(t, New(db))
	b := f.deadLetters(nil, 1)
	f.storeBatch(t, b)
	exec(t, db, `UPDATE dlq.dlq_messages SET status = 'DEAD', updated_at = now() - interval '40 days', created_at = now() - interval '40 days'`)
	exec(t, db, `CALL dlq.archive_old_dlq_messages(30, 1000)`)
	check.Len(t, f.take(t), 0, "pointers of archived messages")
	check.Must(f.store.Restore(t.Context(), b.Messages[0].ID, entity.AuditInfo{Actor: "alice"}))(t)
	check.Len(t, f.take(t), 1, "pointers")
}

// TestCompletion: a completed message has the bytes and the timestamp of its record, is indexed again, and is never due
// again. For a message whose record could not be read, the reason is stored, and the message is due again. A message
// whose record is gone is never due again.
func TestCompletion(t *testing.T) {
	db := freshDB(t)
	f := newFeed(t, New(db))
	b := f.deadLetters(nil, 1, 2, 3)
	f.storeBatch(t, b)
	due := f.take(t)
	check.Len(t, due, 3, "pointers")
	check.Len(t, f.take(t), 0, "pointers within their lease")

	check.NoError(t, check.Err(f.store.AcquireIndexerLease(t.Context(), uuid.New(), 1, time.Minute)))
	stale := entity.Document{MessageID: b.Messages[0].ID, CreatedAt: due[1].Message.CreatedAt, Text: "pointer", Incomplete: true}
	check.NoError(t, f.store.StoreDocuments(t.Context(), 1, []entity.Document{stale}))
	done := []repository.Completion{
		completed(due[1], `{"a":1}`),
		{Message: due[2].Message, State: entity.CompletionRefused, Reason: "topic orders may not be read", Again: time.Hour},
		{Message: due[3].Message, State: entity.SourceGone, Reason: "retention"},
	}
	check.NoError(t, check.Err(f.store.SaveCompletions(t.Context(), done, nil)))

	m := check.Must(f.store.Get(t.Context(), b.Messages[0].ID, -1))(t)
	check.Equal(t, m.Share, &entity.ShareRecord{State: entity.Completed}, "Share")
	check.Equal(t, fmt.Sprintf("%s %s %v", m.Record.Key, m.Record.Value, m.Record.Completed), `k {"a":1} true`, "record")
	check.Equal(t, m.Record.Headers, []entity.Header{{Key: "trace", Value: []byte("t")}, {Key: "__dlq.errors.topic", Value: []byte("orders")}}, "headers")
	check.Equal(t, m.Origin.Timestamp, time.UnixMilli(1_700_000_000_000).UTC(), "original timestamp")
	for i, want := range []entity.ShareRecord{
		{State: entity.CompletionRefused, Reason: "topic orders may not be read"}, {State: entity.SourceGone, Reason: "retention"},
	} {
		check.Equal(t, *check.Must(f.store.Get(t.Context(), b.Messages[i+1].ID, -1))(t).Share, want, "Share")
	}
	check.Equal(t, check.Must(f.store.CountPointers(t.Context(), nil))(t), []repository.PointerCount{
		{Topic: "orders", State: entity.CompletionRefused, Count: 1, OldestDeath: entity.TruncateTime(b.Messages[1].Source.Timestamp)},
	}, "CountPointers")
	check.Equal(t, postgrestest.All[string](t, db, `SELECT state FROM dlq.share_records WHERE due_at IS NOT NULL`), []string{"refused"}, "due")

	pending := check.Must(f.store.Unindexed(t.Context(), 1, 10, 1<<20, 1<<20))(t)
	check.True(t, len(pending) == 3 && string(pending[0].Record.Value) == `{"a":1}`, "messages to index: %v, want the completed one among 3", pending)
	check.NoError(t, f.store.StoreDocuments(t.Context(), 1, []entity.Document{stale}))
	check.Equal(t, postgrestest.All[int64](t, db, `SELECT version FROM dlq.message_documents`), []int64{-1}, "versions of documents")

	check.NoError(t, check.Err(f.store.SaveCompletions(t.Context(), []repository.Completion{completed(due[1], "other")}, nil)))
	again := check.Must(f.store.Get(t.Context(), b.Messages[0].ID, -1))(t)
	check.Equal(t, string(again.Record.Value), `{"a":1}`, "value after a second completion")
	filled, _, err := f.store.FillPayloads(t.Context())
	check.True(t, err == nil && filled == 1, "FillPayloads = %d, %v, want one", filled, err)
}

// TestCompletionIsAReturn: when the headers of a completed record name an attempt, its message becomes a child of the
// message that was sent. The child becomes DEAD when its retries are used up. The outcome of the parent becomes
// returned.
func TestCompletionIsAReturn(t *testing.T) {
	db := freshDB(t)
	f := newFeed(t, New(db))
	parents, _ := f.put(t, 0, records(0, 2)...)
	f.send(t, uuid.Nil, parents...)
	b := f.deadLetters(nil, 1, 2)
	b.Messages[1].MaxRetries = 1
	f.storeBatch(t, b)
	due := f.take(t)
	done := []repository.Completion{completed(due[1], "a"), completed(due[2], "b")}
	for i := range done {
		attempt := postgrestest.Get[uuid.UUID](t, db, `SELECT attempt_id FROM dlq.attempts WHERE message_id = $1`, parents[i].ID)
		done[i].Message.Return = &entity.Return{Parent: parents[i].ID, Attempt: attempt}
	}
	returns := check.Must(f.store.SaveCompletions(t.Context(), done, func(*entity.Message) bool { return true }))(t)
	check.Len(t, returns, 2, "returns")
	for i, want := range []entity.Status{entity.Pending, entity.Dead} {
		child := check.Must(f.store.Get(t.Context(), b.Messages[i].ID, -1))(t)
		check.True(t, child.Parent == parents[i].ID && child.RetryCount == 1 && child.Status == want, "child %d = %+v, want %s", i, child, want)
		parent := check.Must(f.store.Get(t.Context(), parents[i].ID, -1))(t)
		check.Equal(t, parent.Outcome, entity.Returned, "outcome of the parent")
	}
	check.Equal(t, count(t, db, "returns"), 2, "rows of dlq.returns")
}

// TestCompletionKeepsTheStatus: a completion does not undo what happens to a message after TakePointers has returned
// it. A message that became final keeps its status and its retry count. For a pending message, the attempts on the
// message itself are added to the retry count of its parent.
func TestCompletionKeepsTheStatus(t *testing.T) {
	db := freshDB(t)
	f := newFeed(t, New(db))
	parents, _ := f.put(t, 0, records(0, 3)...)
	f.send(t, uuid.Nil, parents...)
	b := f.deadLetters(nil, 1, 2, 3)
	f.storeBatch(t, b)
	exec(t, db, `UPDATE dlq.dlq_messages SET status = 'RETRYING' WHERE original_offset = 1`)
	due := f.take(t)
	exec(t, db, `UPDATE dlq.dlq_messages SET status = 'PENDING' WHERE original_offset = 1`)
	exec(t, db, `UPDATE dlq.dlq_messages SET status = 'RESOLVED', retry_count = 1 WHERE original_offset = 2`)
	exec(t, db, `UPDATE dlq.dlq_messages SET retry_count = max_retries - 1 WHERE original_offset = 3`)
	var done []repository.Completion
	for i := range 3 {
		c := completed(due[int64(i+1)], "v")
		attempt := postgrestest.Get[uuid.UUID](t, db, `SELECT attempt_id FROM dlq.attempts WHERE message_id = $1`, parents[i].ID)
		c.Message.Return = &entity.Return{Parent: parents[i].ID, Attempt: attempt}
		done = append(done, c)
	}
	returns := check.Must(f.store.SaveCompletions(t.Context(), done, func(*entity.Message) bool { return true }))(t)
	for i, want := range []struct {
		status entity.Status
		count  int
	}{{entity.Pending, 1}, {entity.Resolved, 1}, {entity.Dead, b.Messages[2].MaxRetries}} {
		m := check.Must(f.store.Get(t.Context(), b.Messages[i].ID, -1))(t)
		check.True(t, m.Status == want.status && m.RetryCount == want.count, "message %d is %s with count %d, want %+v", i, m.Status, m.RetryCount, want)
		check.True(t, returns[i].Status == want.status && returns[i].RetryCount == want.count, "return %d = %+v, want %+v", i, returns[i], want)
	}
}

// TestForgetPointers: ForgetPointers deletes the rows of dlq.share_records whose messages were deleted, but no other
// rows.
func TestForgetPointers(t *testing.T) {
	db := freshDB(t)
	f := newFeed(t, New(db))
	b := f.deadLetters(nil, 1, 2)
	f.storeBatch(t, b)
	exec(t, db, `DELETE FROM dlq.dlq_messages WHERE original_offset = 1`)
	check.Len(t, f.take(t), 1, "pointers")
	check.Equal(t, check.Must(f.store.ForgetPointers(t.Context(), 10))(t), 1, "forgotten")
	check.Equal(t, count(t, db, "share_records"), 1, "rows that stay")
}

// end takes the due pointers, and saves a completion with the given state for each of them. The completions name no
// time for another try, so the pointers are not due again.
func (f *feed) end(t *testing.T, state entity.Completion) {
	t.Helper()
	for _, p := range f.take(t) {
		c := repository.Completion{Message: p.Message, State: state, Reason: "a reason"}
		check.NoError(t, check.Err(f.store.SaveCompletions(t.Context(), []repository.Completion{c}, nil)))
	}
}

// TestDeadLetterAfterOneThatIsNotCompleted: a dead letter that is forged, or that was written before the topic was
// created again, is not completed, because its record is gone or refused for good. The next dead letter for the same
// offset becomes a separate message.
func TestDeadLetterAfterOneThatIsNotCompleted(t *testing.T) {
	for _, state := range []entity.Completion{entity.SourceGone, entity.CompletionRefused} {
		t.Run(string(state), func(t *testing.T) {
			db := freshDB(t)
			f := newFeed(t, New(db))
			f.storeBatch(t, f.deadLetters(nil, 5)) // a dead letter that is forged, or older than the present topic
			f.end(t, state)
			f.storeBatch(t, f.deadLetters(nil, 5)) // the genuine dead letter for the same offset
			check.Len(t, f.take(t), 1, "pointers that are due after the genuine dead letter")
		})
	}
}

// TestReplayWhoseDeadLetterIsStored: a share group's dead letter that points to a replay is stored, but the pointer's
// record was not read yet, or cannot be read. Then the outcome of the message that was sent is published and not
// consumed, even after this message and the dead letter's message were archived.
func TestReplayWhoseDeadLetterIsStored(t *testing.T) {
	for _, state := range []entity.Completion{entity.CompletionWaiting, entity.CompletionRefused, entity.SourceGone} {
		t.Run(string(state), func(t *testing.T) {
			db := freshDB(t)
			f := newFeed(t, New(db))
			first := f.deadLetters(nil, 7)
			f.storeBatch(t, first)
			f.take(t)
			id := f.redriveOf(t, db, first.Messages[0])
			again := f.deadLetters(nil, 0)
			*again.Messages[0].Origin.Partition = 1
			f.storeBatch(t, again)
			f.end(t, state)
			f.consume(t)
			f.wantOutcome(t, id, first.Messages[0].ID, entity.Published)
			exec(t, db, `UPDATE dlq.dlq_messages SET status = 'RESOLVED', updated_at = now() - interval '40 days', created_at = now() - interval '40 days'`)
			exec(t, db, `CALL dlq.archive_old_dlq_messages(30, 1000)`)
			items := check.Must(f.store.RedriveItems(t.Context(), id, repository.ItemQuery{Limit: 9}))(t)
			check.True(t, len(items) == 1 && items[0].Outcome == entity.Published, "items %+v after the archiving, want one that is published", items)
		})
	}
}

// TestParentAndChildInOneCompletion: when a message and its return are completed together, the message gets both its
// record and the outcome returned.
func TestParentAndChildInOneCompletion(t *testing.T) {
	db := freshDB(t)
	f := newFeed(t, New(db))
	parent := f.deadLetters([]byte("v"), 1)
	f.storeBatch(t, parent)
	f.send(t, uuid.Nil, parent.Messages...)
	child := f.deadLetters([]byte("v"), 2)
	f.storeBatch(t, child)
	due := f.take(t)
	check.Len(t, due, 2, "pointers")
	done := []repository.Completion{completed(due[1], "v"), completed(due[2], "v")}
	attempt := postgrestest.Get[uuid.UUID](t, db, `SELECT attempt_id FROM dlq.attempts`)
	done[1].Message.Return = &entity.Return{Parent: parent.Messages[0].ID, Attempt: attempt}
	check.NoError(t, check.Err(f.store.SaveCompletions(t.Context(), done, func(*entity.Message) bool { return true })))
	m := check.Must(f.store.Get(t.Context(), parent.Messages[0].ID, -1))(t)
	check.True(t, m.Outcome == entity.Returned && m.Origin.Timestamp.Equal(done[0].Timestamp),
		"parent has outcome %q and original timestamp %v, want returned and %v", m.Outcome, m.Origin.Timestamp, done[0].Timestamp)
}

// TestActivityOfReturnsOfShareGroups: dlq.activity counts a return as one arrival and one return, whether its first
// document is stored before or after its record is stored.
func TestActivityOfReturnsOfShareGroups(t *testing.T) {
	const whole, incomplete, record = "whole document", "incomplete document", "record"
	for _, steps := range [][]string{
		{incomplete, record, whole, whole},
		{incomplete, incomplete, record, whole},
		{record, incomplete, whole},
		{record, whole, whole},
	} {
		t.Run(strings.Join(steps, ", "), func(t *testing.T) {
			db := freshDB(t)
			f := newFeed(t, New(db))
			parents, _ := f.put(t, 0, records(0, 1)...)
			f.send(t, uuid.Nil, parents...)
			b := f.deadLetters(nil, 1)
			f.storeBatch(t, b)
			c := completed(f.take(t)[1], "v")
			c.Message.Return = &entity.Return{Parent: parents[0].ID, Attempt: postgrestest.Get[uuid.UUID](t, db, `SELECT attempt_id FROM dlq.attempts`)}
			check.NoError(t, check.Err(f.store.AcquireIndexerLease(t.Context(), uuid.New(), 1, time.Minute)))
			for _, step := range steps {
				if step == record {
					arrivals := check.Must(f.store.SaveCompletions(t.Context(), []repository.Completion{c}, func(*entity.Message) bool { return true }))(t)
					check.Len(t, arrivals, 1, "returns")
					continue
				}
				m := check.Must(f.store.Get(t.Context(), b.Messages[0].ID, -1))(t)
				d := entity.Document{MessageID: m.ID, CreatedAt: m.CreatedAt, Text: step, Incomplete: step == incomplete}
				check.NoError(t, f.store.StoreDocuments(t.Context(), 1, []entity.Document{d}))
			}
			for _, minutes := range []int{1, 5, 60} {
				counted := postgrestest.Get[string](t, db, `SELECT format('%s arrived, %s returned', sum(arrived), sum(returned)) FROM dlq.activity WHERE minutes = $1`, minutes)
				check.Equal(t, counted, "1 arrived, 1 returned", "activity of %d minutes", minutes)
			}
		})
	}
}

// TestActivityOfAReturnThatIsIndexedMeanwhile: dlq.activity counts a return as a return even when its record is stored
// while its first document is being stored.
func TestActivityOfAReturnThatIsIndexedMeanwhile(t *testing.T) {
	db := freshDB(t)
	f := newFeed(t, New(db))
	parents, _ := f.put(t, 0, records(0, 1)...)
	f.send(t, uuid.Nil, parents...)
	b := f.deadLetters(nil, 1)
	f.storeBatch(t, b)
	due := f.take(t)
	check.NoError(t, check.Err(f.store.AcquireIndexerLease(t.Context(), uuid.New(), 1, time.Minute)))
	m := check.Must(f.store.Get(t.Context(), b.Messages[0].ID, -1))(t)

	holder := check.Must(db.BeginTxx(t.Context(), nil))(t) // the indexer has to wait for this transaction, which writes the same row of dlq.activity
	defer func() { _ = holder.Rollback() }()
	check.Must(holder.ExecContext(t.Context(), `INSERT INTO dlq.activity (original_topic, minutes, at, arrived, returned)
		VALUES ($1, 1, date_bin('1 minute', $2::timestamptz, 'epoch'), 1, 0)`, m.OriginalTopic, m.CreatedAt))(t)
	indexed, saved := make(chan error, 1), make(chan error, 1)
	go func() {
		d := entity.Document{MessageID: m.ID, CreatedAt: m.CreatedAt, Text: "x", Incomplete: true}
		indexed <- f.store.StoreDocuments(t.Context(), 1, []entity.Document{d})
	}()
	eventually(t, db, "the indexer waits", strings.Replace(waitingQuery, "$1", "'%completed AS MATERIALIZED%'", 1))
	c := completed(due[1], "v")
	c.Message.Return = &entity.Return{Parent: parents[0].ID, Attempt: postgrestest.Get[uuid.UUID](t, db, `SELECT attempt_id FROM dlq.attempts`)}
	go func() {
		saved <- check.Err(f.store.SaveCompletions(t.Context(), []repository.Completion{c}, func(*entity.Message) bool { return true }))
	}()
	eventually(t, db, "the completion waits for the indexer", strings.Replace(waitingQuery, "$1", "'%held AS MATERIALIZED%'", 1))
	check.NoError(t, holder.Rollback())
	check.NoError(t, <-indexed)
	check.NoError(t, <-saved)
	check.Equal(t, postgrestest.Get[int](t, db, `SELECT count(*) FROM dlq.dlq_messages WHERE parent_id IS NOT NULL`), 1, "returns")
	check.Equal(t, postgrestest.Get[int](t, db, `SELECT coalesce(sum(returned), 0) FROM dlq.activity WHERE minutes = 1`), 1, "returns in the activity")
}

// TestRepeatAfterARefusedRecord: a repeat is counted even when the record before it in the batch goes into quarantine.
func TestRepeatAfterARefusedRecord(t *testing.T) {
	db := freshDB(t)
	f := newFeed(t, New(db))
	refuse(t, db)
	f.storeBatch(t, f.deadLetters(nil, 1))
	b := f.deadLetters(nil, 2, 1, 3)
	b.Messages[0].Record.Value = []byte("refused")
	f.storeBatch(t, b)
	wantDuplicates(t, db, "1+1", "3+0")
}

// TestRepeatOfARefusedRecord: PostgreSQL refuses the first of several dead letters of the same record in one batch. The
// second of these dead letters is stored as a message, and the later ones are counted as its repeats.
func TestRepeatOfARefusedRecord(t *testing.T) {
	db := freshDB(t)
	f := newFeed(t, New(db))
	exec(t, db, `ALTER TABLE dlq.dlq_messages ADD CONSTRAINT chk_test CHECK (error_message <> 'refused') NOT VALID`)
	b := f.deadLetters(nil, 5, 6, 5, 6, 5)
	b.Messages[0].ErrorMessage, b.Messages[2].ErrorMessage = "refused", "genuine"
	f.storeBatch(t, b)
	check.Equal(t, postgrestest.All[string](t, db, `SELECT error_message FROM dlq.dlq_messages WHERE original_offset = 5`), []string{"genuine"}, "messages")
	wantDuplicates(t, db, "5+1", "6+1")
	wantCounts(t, db, 2, 1)
}

// TestDueNeedsTheRecord: automatic retry does not find a share group's message before its record is stored.
func TestDueNeedsTheRecord(t *testing.T) {
	db := freshDB(t)
	f := newFeed(t, New(db))
	b := f.deadLetters(nil, 1, 2, 3)
	f.storeBatch(t, b)
	exec(t, db, `UPDATE dlq.dlq_messages SET next_attempt_at = now() - interval '1 minute' WHERE original_offset > 1`)
	due := f.take(t)
	query := repository.DueQuery{Topics: []string{"orders"}, Limit: 10}
	ids, _, err := f.store.Due(t.Context(), query)
	check.True(t, err == nil && len(ids) == 0, "Due = %v, %v, want none", ids, err)
	check.NoError(t, check.Err(f.store.SaveCompletions(t.Context(), []repository.Completion{completed(due[1], "a"), completed(due[2], "b")}, nil)))
	ids, _, err = f.store.Due(t.Context(), query)
	check.True(t, err == nil && len(ids) == 2, "Due = %v, %v, want the two with their records", ids, err)
}

// TestReasonAge: the age of the reason why a record could not be read is counted from the time when the reason changed.
func TestReasonAge(t *testing.T) {
	db := freshDB(t)
	f := newFeed(t, New(db))
	f.storeBatch(t, f.deadLetters(nil, 1))
	for i, step := range []struct {
		reason string
		old    bool // whether the reason is more than an hour old when the pointer is taken the next time
	}{{"READ", true}, {"READ", true}, {"no topic", false}} {
		p := f.take(t)[1]
		c := repository.Completion{Message: p.Message, State: entity.CompletionRefused, Reason: step.reason, Again: time.Microsecond}
		check.NoError(t, check.Err(f.store.SaveCompletions(t.Context(), []repository.Completion{c}, nil)))
		if i == 0 {
			exec(t, db, `UPDATE dlq.share_records SET reason_at = now() - interval '2 hours'`)
		}
		next := f.take(t)[1]
		check.Equal(t, next.ReasonAge > time.Hour, step.old, "the age %s of reason %q is more than an hour", next.ReasonAge, step.reason)
		exec(t, db, `UPDATE dlq.share_records SET due_at = now()`)
	}
}

// TestNewPointersComeFirst: pointers that were never tried come before pointers whose tries failed, however long the
// failed pointers have waited.
func TestNewPointersComeFirst(t *testing.T) {
	db := freshDB(t)
	f := newFeed(t, New(db))
	f.storeBatch(t, f.deadLetters(nil, 1, 2, 3))
	f.take(t)
	exec(t, db, `UPDATE dlq.share_records SET due_at = now() - interval '1 hour'`)
	f.storeBatch(t, f.deadLetters(nil, 4))
	for _, want := range []int64{4, 1} {
		taken := check.Must(f.store.TakePointers(t.Context(), 1, 1<<20, time.Minute))(t)
		check.Require(t, len(taken) == 1, "pointers %v, want one", taken)
		check.True(t, want == 4 == (*taken[0].Message.Origin.Offset == 4), "took offset %d", *taken[0].Message.Origin.Offset)
	}
}

// consume saves the committed offset of consumer group g behind the first record that the helper send has sent: offset
// 1 of partition 1 of topic orders.
func (f *feed) consume(t *testing.T) {
	t.Helper()
	check.NoError(t, f.store.SaveCommitted(t.Context(), []repository.Committed{
		{TopicGroup: repository.TopicGroup{Topic: "orders", Group: "g"}, TopicID: "life-1", Partition: 1, Offset: 1},
	}))
}

// redriveOf inserts a redrive whose only item is the message m, sent to partition 1 of topic orders at offset 0. It
// then calls the helper send, which makes the acknowledged attempt on m, and returns the redrive's id.
func (f *feed) redriveOf(t *testing.T, db *sqlx.DB, m entity.Message) uuid.UUID {
	t.Helper()
	id := uuid.New()
	exec(t, db, `INSERT INTO dlq.redrives (id, action, state, actor, selection, options, created_at, updated_at, selected, left_out, canary_passed, ordered)
		VALUES ($1, 'retry', 'running', 'a', '{}', '{}', now(), now(), 1, '{}', true, false)`, id)
	exec(t, db, `INSERT INTO dlq.redrive_batches (redrive_id, batch_no, first_item, canary, message_ids, done, results, reasons, target, offsets, targets, succeeded)
		VALUES ($1, 1, 1, true, ARRAY[$2::uuid], true, '{1}', '{""}', '{0}', '{0}',
			'[{"topic": "orders", "topic_id": "life-1", "partition": 1, "consumer_group": "g"}]', 1)`, id, m.ID)
	f.send(t, id, m)
	return id
}

// wantOutcome checks that a redrive's only message has the outcome want: in the message itself, in the redrive's item,
// and in the redrive's counts of outcomes.
func (f *feed) wantOutcome(t *testing.T, redrive, message uuid.UUID, want entity.Outcome) {
	t.Helper()
	m := check.Must(f.store.Get(t.Context(), message, -1))(t)
	check.Equal(t, m.Outcome, want, "outcome of the message")
	items := check.Must(f.store.RedriveItems(t.Context(), redrive, repository.ItemQuery{Limit: 9}))(t)
	check.Require(t, len(items) == 1, "items %+v, want one", items)
	check.Equal(t, items[0].Outcome, want, "outcome of the redrive's item")
	counts := map[entity.Outcome]entity.OutcomeCounts{entity.Published: {Published: 1}, entity.Consumed: {Consumed: 1}}[want]
	for _, canary := range []bool{false, true} {
		check.Equal(t, check.Must(f.store.RedriveOutcomes(t.Context(), redrive, canary))(t), counts, "counts of the redrive; of the canary only: %t", canary)
	}
}

// TestForgedDeadLetterHidesNoOutcome: a forged dead letter in another dead-letter topic names a replay. Its completion
// is refused, because the share group's configuration does not name that dead-letter topic. The outcome of the replay
// stays consumed.
func TestForgedDeadLetterHidesNoOutcome(t *testing.T) {
	db := freshDB(t)
	f := newFeed(t, New(db))
	first := f.deadLetters(nil, 7)
	f.storeBatch(t, first)
	f.take(t)
	id, message := f.redriveOf(t, db, first.Messages[0]), first.Messages[0].ID
	f.consume(t)
	f.wantOutcome(t, id, message, entity.Consumed)

	refs := check.Must(f.store.OpenTopics(t.Context(), []repository.Topic{{Name: "forged.dlq.v1", Incarnation: "y"}}))(t)
	elsewhere := &feed{store: f.store, ref: refs[0]}
	check.Must(f.store.OpenPosition(t.Context(), []repository.Position{{Partition: elsewhere.partition()}}))(t)
	forged := elsewhere.deadLetters(nil, 0)
	*forged.Messages[0].Origin.Partition = 1
	elsewhere.storeBatch(t, forged)
	f.wantOutcome(t, id, message, entity.Consumed)
	f.end(t, entity.CompletionRefused)
	f.wantOutcome(t, id, message, entity.Consumed)
}

// TestDeadLetterOfOneOfSeveralGroups: the consumer group of a message is not known, two consumer groups are configured
// for its topic, and one of them has written a dead letter for the replay. The message, the item of the redrive and the
// redrive's counts have the same outcome. It is consumed only when the other consumer group has the higher committed
// offset.
func TestDeadLetterOfOneOfSeveralGroups(t *testing.T) {
	db := freshDB(t)
	f := newFeed(t, New(db))
	first := f.deadLetters(nil, 7)
	f.storeBatch(t, first)
	f.take(t)
	id := f.redriveOf(t, db, first.Messages[0])
	exec(t, db, `UPDATE dlq.dlq_messages SET consumer_group = NULL`)
	exec(t, db, `UPDATE dlq.redrive_batches SET targets = jsonb_set(targets, '{0,consumer_group}', '""')`)
	exec(t, db, `INSERT INTO dlq.topic_groups (topic, consumer_group, configured) VALUES ('orders', 'g', true), ('orders', 'h', true)`)
	again := f.deadLetters(nil, 0)
	*again.Messages[0].Origin.Partition = 1
	f.storeBatch(t, again)
	f.consume(t)
	committed := repository.Committed{TopicGroup: repository.TopicGroup{Topic: "orders", Group: "h"}, TopicID: "life-1", Partition: 1, Offset: 1}
	check.NoError(t, f.store.SaveCommitted(t.Context(), []repository.Committed{committed}))
	f.wantOutcome(t, id, first.Messages[0].ID, entity.Published)
	committed.Offset = 2
	check.NoError(t, f.store.SaveCommitted(t.Context(), []repository.Committed{committed}))
	f.wantOutcome(t, id, first.Messages[0].ID, entity.Consumed)
}

// TestOldDeadLetterHidesNoOutcome: the original topic was created again, and a dead letter names a record of the
// earlier incarnation. The outcome of a record that was sent to the same position of the present topic is still
// consumed.
func TestOldDeadLetterHidesNoOutcome(t *testing.T) {
	db := freshDB(t)
	f := newFeed(t, New(db))
	old := f.deadLetters([]byte("old"), 0)
	*old.Messages[0].Origin.Partition = 1
	old.Messages[0].Source.Timestamp = time.Now().Add(-2 * time.Minute)
	f.storeBatch(t, old)
	f.end(t, entity.SourceGone)
	first := f.deadLetters(nil, 7)
	f.storeBatch(t, first)
	f.take(t)
	id := f.redriveOf(t, db, first.Messages[0])
	f.consume(t)
	f.wantOutcome(t, id, first.Messages[0].ID, entity.Consumed)
}
