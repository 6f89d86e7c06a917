package postgres

import (
	"fmt"
	"math/rand/v2"
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

// BenchmarkStore stores full batches of 1 KB records with Spring's headers.
func BenchmarkStore(b *testing.B) {
	const rows = 1000
	store := New(postgrestest.Open(b))
	refs := check.Must(store.OpenTopics(b.Context(), []repository.Topic{{Name: "orders.dlq.v1", Incarnation: "x"}}))(b)
	part := repository.Partition{Incarnation: refs[0].Incarnation}
	check.Must(store.OpenPosition(b.Context(), []repository.Position{{Partition: part}}))(b)
	value := []byte(`{"id":12345,"items":[` + strings.Repeat(`{"product":"P-100","title":"Espresso cup, set of 4","quantity":2,"unit_price":24.90},`, 12) + `{}]}`)
	var headers []entity.Header
	for i := range 8 {
		headers = append(headers, entity.Header{Key: fmt.Sprintf("kafka_dlt-header-%d", i), Value: []byte(strings.Repeat("v", 48))})
	}
	next := int64(0)
	b.ReportAllocs()
	for b.Loop() {
		batch := repository.Batch{Ranges: []repository.Range{{Partition: part, From: next, To: next + rows}}}
		for n := range int64(rows) {
			m := entity.NewMessage("orders", "stock service is down", time.Now())
			m.Record = entity.Record{Key: []byte("order-12345"), Value: value, Headers: headers, Size: int64(len(value))}
			m.Source = entity.Source{TopicID: refs[0].TopicID, Incarnation: part.Incarnation, Offset: next + n, Timestamp: m.CreatedAt}
			m.Origin.Confidence, m.Failure.Dialect = entity.FromHeader, "spring-dlt"
			batch.Messages = append(batch.Messages, m)
		}
		moved, err := store.Store(b.Context(), batch)
		check.Require(b, err == nil && len(moved.Ranges) == 1, "Store = %v, %v", moved, err)
		next += rows
	}
	b.ReportMetric(float64(next)/b.Elapsed().Seconds(), "rows/s")
}

// BenchmarkStoreDocuments stores search documents of 660 random letters, digits and spaces in batches of 500. The table
// already contains the documents of earlier batches.
func BenchmarkStoreDocuments(b *testing.B) {
	const batch = 500
	db := postgrestest.Open(b)
	store := New(db)
	ids := floodOf(b, db, batch*200)
	random := rand.New(rand.NewPCG(1, 2))
	next := 0
	for b.Loop() {
		check.Require(b, next != len(ids), "there are no messages left: give it fewer rounds")
		check.NoError(b, store.StoreDocuments(b.Context(), 1, documentsOf(random, ids[next:next+batch])))
		next += batch
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(next), "µs/document")
}

// BenchmarkSearchBehindAFlood searches for a word that only 10,000 old messages contain. The name of each sub-benchmark
// is the number of newer messages, which do not contain the word.
func BenchmarkSearchBehindAFlood(b *testing.B) {
	for _, flood := range []int{0, 500, 5_000, 50_000} {
		b.Run(fmt.Sprint(flood), func(b *testing.B) {
			db := postgrestest.Open(b)
			store := New(db)
			store.SetIndexVersion(1)
			if _, err := db.Exec(`INSERT INTO dlq.dlq_messages (original_topic, error_message, created_at)
				SELECT 'old', 'order cannot be charged', now() - interval '1 hour' - n * interval '1 second' FROM generate_series(1, 10000) n`); err != nil {
				b.Fatal(err)
			}
			postgrestest.StoreDocuments(b, db, `error_message`, `'{}'`, `dlq.dlq_messages m`)
			ids := floodOf(b, db, flood)
			random := rand.New(rand.NewPCG(1, 2))
			for from := 0; from < flood; from += 500 {
				check.NoError(b, store.StoreDocuments(b.Context(), 1, documentsOf(random, ids[from:from+500])))
			}
			for _, statement := range []string{
				`UPDATE dlq.search_index SET walked_at = now() + interval '1 day', found_until = now() + interval '1 day'`,
				`VACUUM ANALYZE dlq.dlq_messages`,
			} {
				check.Must(db.Exec(statement))(b)
			}
			for b.Loop() {
				found, err := store.Search(b.Context(), repository.SearchQuery{Filter: entity.Filter{Words: []string{"charged"}}, Limit: 20})
				check.Require(b, err == nil && len(found.Messages) == 20, "Search = %d messages, %v", len(found.Messages), err)
			}
		})
	}
}

// floodOf inserts the given number of messages of the topic flood, one millisecond apart, and returns their ids, the
// oldest first.
func floodOf(b *testing.B, db *sqlx.DB, messages int) (ids []uuid.UUID) {
	b.Helper()
	if _, err := db.Exec(`INSERT INTO dlq.dlq_messages (original_topic, error_message, created_at)
		SELECT 'flood', 'boom', now() + n * interval '1 millisecond' FROM generate_series(1, $1::int) n`, messages); err != nil {
		b.Fatal(err)
	}
	check.Must(db.Exec(`UPDATE dlq.search_index SET version = 1`))(b)
	check.NoError(b, db.Select(&ids, `SELECT id FROM dlq.dlq_messages WHERE original_topic = 'flood' ORDER BY created_at`))
	return ids
}

func documentsOf(random *rand.Rand, ids []uuid.UUID) []entity.Document {
	const alphabet = "abcdefghijklmnopqrstuvwxyz abcdefghijklmnopqrstuvwxyz 0123456789"
	documents := make([]entity.Document, len(ids))
	for i, id := range ids {
		text := make([]byte, 660)
		for n := range text {
			text[n] = alphabet[random.IntN(len(alphabet))]
		}
		documents[i] = entity.Document{MessageID: id, Text: string(text), Terms: []int64{random.Int64(), random.Int64()}}
	}
	return documents
}

// BenchmarkAttempts claims batches of 500 messages and finishes their attempts. One benchmark sends the records
// unchanged, the other with an edit that sets a value of 1 KB.
func BenchmarkAttempts(b *testing.B) {
	b.Run("AsTheyAre", func(b *testing.B) { attempts(b, nil) })
	b.Run("Edited", func(b *testing.B) {
		attempts(b, &entity.Edit{SetValue: true, Value: make([]byte, 1<<10)})
	})
}

func attempts(b *testing.B, edit *entity.Edit) {
	const batch, total = 500, 200_000
	db := postgrestest.Open(b)
	store := New(db)
	pending(b, db, "orders", total)
	ids := postgrestest.All[uuid.UUID](b, db, `SELECT id FROM dlq.dlq_messages ORDER BY created_at`)
	var claiming, finishing time.Duration
	batches := 0
	for b.Loop() {
		check.Require(b, (batches+1)*batch <= total, "every message was sent")
		var claims []repository.Claim
		var results []repository.Result
		for i, id := range ids[batches*batch : (batches+1)*batch] {
			c := repository.Claim{MessageID: id, ID: uuid.New(), Topic: "orders", TopicID: "life-1", OriginalTopic: "orders", Edit: edit, SentHash: 7}
			claims = append(claims, c)
			results = append(results, repository.Result{MessageID: id, ClaimID: c.ID, Verdict: entity.Acknowledged, Offset: int64(i)})
		}
		start := time.Now()
		taken := check.Must(store.Claim(b.Context(), claims, repository.Claiming{Expiry: time.Minute}))(b)
		check.Require(b, len(taken) == batch, "Claim = %d messages, want %d", len(taken), batch)
		claimed := time.Now()
		check.Len(b, check.Must(store.Finish(b.Context(), results, entity.By("alice")))(b), batch, "Finish messages")
		claiming += claimed.Sub(start)
		finishing += time.Since(claimed)
		batches++
	}
	b.ReportMetric(float64(claiming.Microseconds())/1000/float64(batches), "ms/claim")
	b.ReportMetric(float64(finishing.Microseconds())/1000/float64(batches), "ms/finish")
}

// benchmarkCounters inserts the counters of millions of messages, which triggers would otherwise write, but only
// 100,000 messages. There are counters of 1,000 error groups, each with arrivals of a week in three topics, and
// counters of 200 topics. Each counter is split into as many shards as in production.
func benchmarkCounters(b *testing.B, db *sqlx.DB) {
	b.Helper()
	for _, statement := range []string{
		`INSERT INTO dlq.topics (name) SELECT 'topic' || n || '.dlq' FROM generate_series(1, 200) n`,
		`INSERT INTO dlq.topic_groups (topic, consumer_group, noted) SELECT 'topic' || n, 'group' || n % 7, true FROM generate_series(0, 199) n`,
		`INSERT INTO dlq.dlq_messages (original_topic, error_message, status, created_at, dlq_topic_id, value)
			SELECT 'topic' || n % 200, 'boom', (ARRAY['PENDING', 'RESOLVED', 'DEAD', 'RESOLVED'])[1 + n % 4], now() - n * interval '1 s', 1 + n % 200, 'v'
			FROM generate_series(1, 100000) n`,
		`INSERT INTO dlq.message_counters SELECT original_topic, dlq_topic_id, status, s, 100 FROM dlq.message_counters, generate_series(0, 15) s
			ON CONFLICT DO NOTHING`,
		`INSERT INTO dlq.error_groups (id, class, title, frames, first_seen, last_seen)
			SELECT md5(g::text)::uuid, 'java.io.IOException', 'order <n> cannot be charged: ' || g, '{a.b.c,d.e.f}', now() - g * interval '1 hour', now() - g * interval '1 s'
			FROM generate_series(0, 999) g`,
		`INSERT INTO dlq.group_counters
			SELECT md5(g::text)::uuid, 'topic' || (g * 3 + t) % 200, status, s, 10 + g
			FROM generate_series(0, 999) g, generate_series(0, 2) t, unnest(ARRAY['PENDING', 'RETRYING', 'RESOLVED', 'DEAD']) status, generate_series(0, 3) s`,
		`INSERT INTO dlq.group_arrivals
			SELECT md5(g::text)::uuid, coalesce(date_trunc('hour', now()) - h * interval '1 hour', '-infinity'), 'topic' || (g * 3 + t) % 200, s, 10, now() - interval '30 days', now()
			FROM generate_series(0, 999) g, generate_series(0, 2) t, (SELECT generate_series(0, 167) AS h UNION ALL SELECT NULL) h, generate_series(0, 1) s`,
		`INSERT INTO dlq.group_minutes
			SELECT md5(g::text)::uuid, date_trunc('minute', now()) - m * interval '1 minute', 'topic' || (g * 3 + t) % 200, 1 + (g + m) % 7
			FROM generate_series(0, 999) g, generate_series(0, 2) t, generate_series(0, 59) m`,
		`VACUUM ANALYZE`,
	} {
		check.Must(db.Exec(statement))(b)
	}
}

// BenchmarkGroups reads pages of 100 error groups, one error group, and the summaries of all topics.
func BenchmarkGroups(b *testing.B) {
	db := postgrestest.Open(b)
	benchmarkCounters(b, db)
	store := New(db)
	some := check.Must(entity.ParseTopicPatterns("topics", "topic1*"))(b)
	day := repository.Trend{Since: time.Now().Add(-24 * time.Hour), Until: time.Now()}
	quarter, hour := time.Now().Truncate(time.Minute).Add(-15*time.Minute), time.Now().Truncate(time.Minute).Add(-59*time.Minute)
	for _, c := range []struct {
		name string
		q    repository.GroupQuery
	}{
		{"LastSeen", repository.GroupQuery{}},
		{"LastSeenTrend", repository.GroupQuery{Trend: day}},
		{"OpenTrend", repository.GroupQuery{Statuses: repository.OpenStatuses, Trend: day}},
		{"ByOpenTrend", repository.GroupQuery{Statuses: repository.OpenStatuses, Sort: repository.GroupsByOpen, Trend: day}},
		{"ByRecent", repository.GroupQuery{Statuses: repository.OpenStatuses, Sort: repository.GroupsByRecent, Recent: quarter, Trend: repository.Trend{Minutes: hour}}},
		{"VisibleByRecent", repository.GroupQuery{Statuses: repository.OpenStatuses, Sort: repository.GroupsByRecent, Recent: quarter, Trend: repository.Trend{Minutes: hour}, Visible: &some}},
		{"VisibleTrend", repository.GroupQuery{Statuses: repository.OpenStatuses, Trend: day, Visible: &some}},
		{"TopicTrend", repository.GroupQuery{Statuses: repository.OpenStatuses, Trend: day, Topic: "topic7"}},
	} {
		b.Run(c.name, func(b *testing.B) {
			c.q.Limit = 100
			for b.Loop() {
				groups, err := store.ErrorGroups(b.Context(), c.q)
				check.Require(b, err == nil && len(groups) >= 15, "ErrorGroups = %d groups, %v, want a page", len(groups), err)
			}
		})
	}
	b.Run("One", func(b *testing.B) {
		id := uuid.MustParse("c4ca4238-a0b9-2382-0dcc-509a6f75849b") // benchmarkCounters gives error group n the id md5(n); this is md5('1')
		week := repository.Trend{Since: time.Now().Add(-7 * 24 * time.Hour), Until: time.Now()}
		for b.Loop() {
			check.Must(store.ErrorGroup(b.Context(), id, nil, week))(b)
		}
	})
	b.Run("Topics", func(b *testing.B) {
		for b.Loop() {
			check.Len(b, check.Must(store.TopicSummaries(b.Context(), repository.TopicQuery{}))(b), 200, "TopicSummaries")
		}
	})
	b.Run("TopicsVisible", func(b *testing.B) {
		for b.Loop() {
			topics := check.Must(store.TopicSummaries(b.Context(), repository.TopicQuery{Visible: &some}))(b)
			check.Require(b, len(topics) >= 100, "TopicSummaries = %d, want 111", len(topics))
		}
	})
}

func retryAll(topic string) repository.NewRedrive {
	return repository.NewRedrive{
		ID: uuid.New(), Action: entity.RedriveRetry, Selection: entity.Selection{Filter: entity.Filter{Topic: topic}},
		Cause: entity.By("alice"), BatchSize: 500,
	}
}

// pending inserts n PENDING messages of one topic.
func pending(tb testing.TB, db *sqlx.DB, topic string, n int) {
	tb.Helper()
	for _, statement := range []string{
		`INSERT INTO dlq.topics (name) VALUES ('orders.dlq') ON CONFLICT DO NOTHING`,
		fmt.Sprintf(`INSERT INTO dlq.dlq_messages (original_topic, error_message, created_at, dlq_topic_id, value, headers)
			SELECT '%s', 'boom ' || n, now() - n * interval '1 ms', 1, 'v', '\x00'
			FROM generate_series(1, %d) n`, topic, n),
		`VACUUM ANALYZE dlq.dlq_messages`,
	} {
		if _, err := db.Exec(statement); err != nil {
			tb.Fatal(err)
		}
	}
}

// BenchmarkCreateRedrive creates redrives that retry all messages, and redrives that keep the order of 10,000 keys.
func BenchmarkCreateRedrive(b *testing.B) {
	for _, n := range []int{100_000, 1_000_000} {
		db := postgrestest.Open(b)
		store := New(db)
		pending(b, db, "orders", n)
		check.Must(db.Exec(`UPDATE dlq.dlq_messages SET key = convert_to('order-' || n % 10000, 'UTF8'), original_partition = n % 12, original_offset = n / 12
			FROM (SELECT id, row_number() OVER () AS n FROM dlq.dlq_messages) x WHERE x.id = dlq_messages.id`))(b)
		check.Must(db.Exec(`VACUUM ANALYZE dlq.dlq_messages`))(b)
		for _, ordered := range []bool{false, true} {
			b.Run(fmt.Sprintf("%d/KeyOrder=%t", n, ordered), func(b *testing.B) {
				for b.Loop() {
					order := retryAll("orders")
					order.Options.KeepKeyOrder = ordered
					r := check.Must(store.CreateRedrive(b.Context(), order))(b)
					check.Require(b, r.Counts.Waiting == n, "CreateRedrive = %d messages, want %d", r.Counts.Waiting, n)
				}
			})
		}
	}
}

// BenchmarkBatch leases and saves batches of 500 messages that were all sent, and then loads the redrive with its
// outcomes.
func BenchmarkBatch(b *testing.B) {
	const n = 1_000_000
	db := postgrestest.Open(b)
	store := New(db)
	pending(b, db, "orders", n)
	r := check.Must(store.CreateRedrive(b.Context(), retryAll("orders")))(b)
	owner := uuid.New()
	var leasing, saving time.Duration
	batches := 0
	for b.Loop() {
		check.Require(b, batches != n/500, "every batch is done")
		start := time.Now()
		batch, err := store.LeaseBatch(b.Context(), r.ID, owner, time.Minute)
		check.Require(b, err == nil && batch != nil, "LeaseBatch = %v, %v, want one", batch, err)
		leased := time.Now()
		results := repository.BatchResults{RedriveID: r.ID, Number: batch.Number, Owner: owner}
		for i, item := range batch.Items {
			results.Items = append(results.Items, entity.RedriveItem{
				Number: batch.First + i, MessageID: item.MessageID, Result: entity.ItemSucceeded,
				Topic: "orders", TopicID: "life-1", Partition: int32(i % 12), Offset: int64(i), Group: "billing",
			})
		}
		saved := check.Must(store.SaveBatch(b.Context(), results))(b)
		check.Require(b, saved, "SaveBatch = %v, want saved", saved)
		leasing += leased.Sub(start)
		saving += time.Since(leased)
		batches++
	}
	b.ReportMetric(float64(leasing.Microseconds())/1000/float64(batches), "ms/lease")
	b.ReportMetric(float64(saving.Microseconds())/1000/float64(batches), "ms/save")
	start := time.Now()
	check.Must(store.Redrive(b.Context(), r.ID))(b)
	b.ReportMetric(float64(time.Since(start).Microseconds())/1000, "ms/look")
	start = time.Now()
	counts := check.Must(store.RedriveOutcomes(b.Context(), r.ID, false))(b)
	check.Require(b, counts.Published == batches*500, "RedriveOutcomes = %+v, want %d published", counts, batches*500)
	b.ReportMetric(float64(time.Since(start).Microseconds())/1000, "ms/outcomes")
}
