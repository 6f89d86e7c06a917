package republisher

import (
	"context"
	"testing"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

func claimAt(partition int32, end int64) entity.Claim {
	return entity.Claim{ID: uuid.New(), Topic: orders, Partition: partition, EndOffset: end}
}

// put appends records at the given offsets of a partition. The last record is the one that the claim has sent, unless
// claim is uuid.Nil.
func (l *logs) put(partition int32, claim uuid.UUID, offsets ...int64) {
	for i, offset := range offsets {
		record := broker.Record{Offset: offset}
		if i == len(offsets)-1 && claim != uuid.Nil {
			record.Headers = []entity.Header{{Key: "dlq-redrive-id", Value: []byte(claim.String())}}
		}
		l.records[part(partition)] = append(l.records[part(partition)], record)
	}
}

func TestFindMany(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name    string
		log     func(l *logs, c entity.Claim)
		verdict entity.Verdict
		class   entity.ErrorClass
		offset  int64
	}{
		{"FoundAtTheNotedOffset", func(l *logs, c entity.Claim) { l.put(0, c.ID, 10) }, entity.Acknowledged, entity.AlreadyPublished, 10},
		{"FoundBehindOthers", func(l *logs, c entity.Claim) { l.put(0, c.ID, 9, 10, 11, 12) }, entity.Acknowledged, entity.AlreadyPublished, 12},
		{"FirstOfCopiesCounts", func(l *logs, c entity.Claim) { l.put(0, c.ID, 10); l.put(0, c.ID, 11) }, entity.Acknowledged, entity.AlreadyPublished, 10},
		{"FoundBehindAGap", func(l *logs, c entity.Claim) { l.put(0, c.ID, 9, 14) }, entity.Acknowledged, entity.AlreadyPublished, 14},
		{"NotThere", func(l *logs, _ entity.Claim) { l.put(0, uuid.New(), 9, 10, 11) }, entity.GivenBack, "", -1},
		{"NothingWrittenSince", func(l *logs, _ entity.Claim) { l.put(0, uuid.Nil, 9) }, entity.GivenBack, "", -1},
		{"EndsOfTransactionsAreNoGap", func(l *logs, _ entity.Claim) {
			l.put(0, uuid.Nil, 9, 10)
			l.records[part(0)] = append(l.records[part(0)], broker.Record{Offset: 11, Control: true})
			l.put(0, uuid.Nil, 12)
		}, entity.GivenBack, "", -1},
		{"RemovedByCompactionMaybe", func(l *logs, _ entity.Claim) { l.put(0, uuid.Nil, 9, 10, 12) }, entity.InDoubt, entity.UnknownClass, -1},
		{"RemovedRightAtTheNotedOffset", func(l *logs, _ entity.Claim) { l.put(0, uuid.Nil, 9, 11) }, entity.InDoubt, entity.UnknownClass, -1},
		{"LogStartsLater", func(l *logs, _ entity.Claim) { l.starts[part(0)] = 12; l.put(0, uuid.Nil, 12) }, entity.InDoubt, entity.UnknownClass, -1},
		{"FoundAlthoughTheLogStartsLater", func(l *logs, c entity.Claim) { l.starts[part(0)] = 12; l.put(0, c.ID, 12) }, entity.Acknowledged, entity.AlreadyPublished, 12},
		{"TopicCreatedAgain", func(l *logs, _ entity.Claim) { l.put(0, uuid.Nil, 0, 1) }, entity.InDoubt, entity.UnknownClass, -1},
		{"TopicGone", func(l *logs, _ entity.Claim) { delete(l.topics, orders) }, entity.InDoubt, entity.UnknownClass, -1},
		{"NoRightToRead", func(l *logs, _ entity.Claim) { l.errs[part(0)] = broker.ErrUnauthorized }, entity.InDoubt, entity.UnknownClass, -1},
		{"NoLeaderNow", func(l *logs, _ entity.Claim) { l.errs[part(0)] = broker.ErrNoLeader }, entity.InDoubt, entity.BrokerUnavailable, -1},
		{"BrokersAway", func(l *logs, _ entity.Claim) { l.down = broker.ErrUnavailable }, entity.InDoubt, entity.BrokerUnavailable, -1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLogs()
			claim := claimAt(0, 10)
			c.log(l, claim)
			got := newRepublisher(t, l).FindMany(t.Context(), []entity.Claim{claim})[0]
			check.True(t, got.Verdict == c.verdict && got.Class == c.class && got.Offset == c.offset,
				"FindMany = %+v, want verdict %q, class %q, offset %d", got, c.verdict, c.class, c.offset)
			check.True(t, (got.Err != nil) == (c.verdict == entity.InDoubt),
				"FindMany error = %v, want one for a doubt only", got.Err)
		})
	}
}

func TestFindManyNoticesAnotherTopicOfTheSameName(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, noted, present string
		verdict              entity.Verdict
	}{
		{"SameTopic", "id-1", "id-1", entity.GivenBack},
		{"CreatedAgainAndGrownPastTheNotedOffset", "id-1", "id-2", entity.InDoubt},
		{"BrokerGivesNoIDs", "", "", entity.GivenBack},
		{"ClaimIsOfABrokerWithoutIDs", "", "id-2", entity.GivenBack},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLogs()
			l.id = c.present
			l.put(0, uuid.Nil, 0, 1, 2)
			claim := claimAt(0, 1)
			claim.TopicID = c.noted
			got := newRepublisher(t, l).FindMany(t.Context(), []entity.Claim{claim})[0]
			check.True(t, got.Verdict == c.verdict, "FindMany = %+v, want verdict %q", got, c.verdict)
		})
	}
}

func TestFindManyWithoutTheTopicsID(t *testing.T) {
	t.Parallel()
	l := newLogs()
	l.mute = broker.ErrUnavailable
	here, absent := claimAt(0, 1), claimAt(0, 1)
	here.TopicID, absent.TopicID = "id-1", "id-1"
	l.put(0, here.ID, 0, 1)
	got := newRepublisher(t, l).FindMany(t.Context(), []entity.Claim{here, absent})
	check.True(t, got[0].Verdict == entity.Acknowledged, "what is there = %+v, want it found", got[0])
	check.True(t, got[1].Verdict == entity.InDoubt && got[1].Class == entity.BrokerUnavailable,
		"what is absent = %+v, want a doubt that may be settled later", got[1])
}

// growing is a Kafka in which the topic is deleted and created again while its log is being read.
type growing struct{ *logs }

func (g growing) Scan(ctx context.Context, tp broker.TopicPartition, from, to int64, header string, fn func(broker.Record) bool) error {
	g.id = "id-2"
	return g.logs.Scan(ctx, tp, from, to, header, fn)
}

func TestFindManyNoticesATopicThatChangesWhileItIsRead(t *testing.T) {
	t.Parallel()
	l := newLogs()
	l.id = "id-1"
	l.put(0, uuid.Nil, 0, 1, 2)
	claim := claimAt(0, 1)
	claim.TopicID = "id-1"
	r := newRepublisher(t, l)
	r.cluster = growing{l}
	got := r.FindMany(t.Context(), []entity.Claim{claim})[0]
	check.True(t, got.Class == entity.UnknownClass, "FindMany = %+v, want a doubt for good", got)
}

func TestFindManyOfWhatWasNeverClaimed(t *testing.T) {
	t.Parallel()
	got := newRepublisher(t, newLogs()).FindMany(t.Context(), []entity.Claim{{Topic: "nowhere"}})[0]
	check.True(t, got.Verdict == entity.GivenBack, "FindMany = %+v, want it given back: no attempt of ours", got)
}

func TestFindManyReadsEachPartitionOnce(t *testing.T) {
	t.Parallel()
	l := newLogs()
	claims := []entity.Claim{claimAt(0, 0), claimAt(1, 0), claimAt(0, 1), claimAt(0, 2)}
	l.put(0, claims[2].ID, 0, 1)
	l.put(0, claims[0].ID, 2)
	l.put(1, uuid.New(), 0)
	got := newRepublisher(t, l).FindMany(t.Context(), claims)
	want := []entity.Verdict{entity.Acknowledged, entity.GivenBack, entity.Acknowledged, entity.GivenBack}
	for i, d := range got {
		check.True(t, d.Verdict == want[i], "finding %d = %+v, want verdict %q", i, d, want[i])
	}
	check.True(t, l.scans[part(0)] == 1 && l.scans[part(1)] == 1, "scans = %v, want one for each partition", l.scans)
}
