package ingest

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/fingerprint"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres"
)

// With a real Kafka and a real PostgreSQL, ingest uses the operators' rules and stores error groups.
func TestRulesAndGroupsAgainstRealServers(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	topic := p.create("ruled", 1)
	maker := check.Must(fingerprint.New(fingerprint.DefaultConfig()))(t)
	produce := func(message string) {
		t.Helper()
		record := broker.Record{Value: []byte("{}"), Headers: []entity.Header{
			{Key: "kafka_throwable_class_name", Value: []byte("Boom")},
			{Key: "kafka_throwable_message", Value: []byte(message)},
		}}
		if err := p.cluster.NewProducer(broker.ProducerConfig{Timeout: 20 * time.Second}).Produce(p.ctx(), part(topic, 0), []broker.Record{record}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	row := func(offset int64) (original string, group uuid.UUID) {
		t.Helper()
		err := p.db.QueryRowx(`SELECT original_topic, group_id FROM dlq.dlq_messages WHERE dlq_offset = $1`, offset).Scan(&original, &group)
		check.NoError(t, err)
		return original, group
	}

	i := p.ingester(WithFingerprints(maker))
	p.runThis(i)
	produce("no stock")
	p.stored(topic, 1, 1)
	first, group := row(0)
	if want := maker.Fingerprint("Boom", "no stock", "").ID(); first != "" || group != want {
		t.Errorf("first message of %q in group %s, want of no topic in %s", first, group, want)
	}

	rules := []entity.TopicRule{{Pattern: topic, Original: "orders"}}
	check.Must(postgres.New(p.db).ReplaceMapping(p.ctx(), rules, 0, entity.By("somebody")))(t)
	check.Eventually(p.t, "the rules are in force", func() bool { return i.decoder.Load().Mapped(topic) == "orders" })
	produce("no stock")
	p.stored(topic, 1, 2)
	if second, again := row(1); second != "orders" || again != group {
		t.Errorf("second message of %q in group %s, want of orders in %s", second, again, group)
	}
	var groups int
	err := p.db.Get(&groups, `SELECT count(*) FROM dlq.error_groups`)
	check.True(t, err == nil && groups == 1, "%d groups, %v, want 1", groups, err)
}
