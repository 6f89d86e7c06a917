package integration_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlq-manager/dlq-manager/integration/stack"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// TestFaultCluster: in a cluster of three brokers, partition leaders move and brokers end, while dead letters arrive, a
// redrive runs and clients retry single messages. After each fault, no message is lost, published twice or DEAD, and
// all programs continue by themselves.
func TestFaultCluster(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	faults := []struct {
		name  string
		fault func()
	}{
		{"leaders move", r.unnoticed(r.leadersMove)},
		{"a broker is killed", r.brokerIsKilled},
		{"a broker is suspended", r.brokerStandsStill},
		{"too few replicas are in sync", r.tooFewInSync},
		{"two brokers are killed", r.twoAreKilled},
		{"replicas are reassigned", r.replicasAreReassigned},
		{"every broker restarts", r.unnoticed(r.everyBrokerRestarts)},
	}
	least := map[string]int{"single retries": 2}
	for range pick(1, 2) {
		for _, f := range faults[:pick(2, len(faults))] {
			least[f.name]++
			r.during(f.name, f.fault)
		}
	}
	r.luck.wantCounted(t, least)
	r.retryTheRest(r.api)
	r.wantStoredOnce()
	r.wantResolvedOnce()
	for _, id := range r.resolved {
		check.Equal(t, r.count("status = 'RESOLVED' AND id = '"+id+"'"), 1, "messages whose client got a success")
	}
	r.ingester.wantRunning()
	r.api.wantRunning()
}

// replicated is a system under test on a Kafka cluster of three brokers.
type replicated struct {
	*letters
	own           *stack.Stack
	ingester, api *process
	luck          *chance
	resolved      []string // ids of messages whose retry the API answered with success
}

func newReplicated(t *testing.T) *replicated {
	t.Helper()
	own := ownStack(t, stack.Options{Kafka: true, KafkaCluster: true})
	r := &replicated{own: own, letters: newLetters(newSystemOn(t, own.Brokers(), postgrestest.URL(t)))}
	environ := impatient("DLQ_KAFKA_BROKERS="+strings.Join(own.Brokers(), ","), "DLQ_REDRIVE_WORKERS=2")
	r.ingester, r.api, r.luck = r.startReady("ingester", environ...), r.startReady("api", environ...), newChance(r.letters)
	return r
}

// during starts a redrive, calls fault while the redrive runs, and checks that the redrive continues after the fault.
func (r *replicated) during(name string, fault func()) {
	r.t.Helper()
	began := time.Now()
	const rate = 40 // messages a second; it is so slow that the redrive lasts longer than the fault
	r.produce(rate*pick(60, 120), nil)
	r.waitStored()
	id := r.beginAt(r.api, rate)
	eventually(r.t, name+": messages are resolved", func() bool { return r.redrive(id).Succeeded > 0 })
	fault()
	r.inSync()
	got := r.redrive(id)
	if got.State == "running" {
		r.luck.count(name)
	}
	r.until("the redrive goes on", func() bool { return r.redrive(id).Succeeded > got.Succeeded+rate })
	r.api.call(http.MethodPost, "/api/v1/redrives/"+id+"/cancel", http.StatusOK, nil)
	eventually(r.t, name+": the redrive is cancelled", func() bool { return r.redrive(id).State == "cancelled" })
	r.finished(r.api, r.begin(r.api))
	check.Equal(r.t, r.with("DEAD"), 0, name+": dead messages")
	r.waitStored()
	r.wantNoFalseSuccess()
	r.t.Logf("%s: %s", name, time.Since(began).Round(time.Second))
}

// unnoticed returns a function that runs the fault and checks that the API refused no request during the fault.
func (r *replicated) unnoticed(fault func()) func() {
	return func() {
		before := len(r.log(r.api))
		fault()
		for line := range strings.Lines(r.log(r.api)[before:]) {
			check.True(r.t, !strings.Contains(line, "request failed"), "a request was refused: %s", line)
		}
	}
}

func (r *replicated) redrive(id string) (got redrive) {
	r.t.Helper()
	check.NoError(r.t, json.Unmarshal(r.api.call(http.MethodGet, "/api/v1/redrives/"+id, 200, nil), &got))
	return got
}

// until calls load repeatedly, until ok returns true.
func (r *replicated) until(what string, ok func() bool) {
	r.t.Helper()
	eventually(r.t, what, func() bool {
		r.load()
		return ok()
	})
}

// load produces some dead letters and retries the newest PENDING message. The API may refuse this retry because of a
// fault, or because a redrive has claimed the message.
func (r *replicated) load() {
	r.t.Helper()
	r.produce(5, nil)
	var ids []string
	check.NoError(r.t, r.db.Select(&ids, `SELECT id::text FROM dlq.dlq_messages WHERE status = 'PENDING' ORDER BY id DESC LIMIT 1`))
	for _, id := range ids {
		switch status, body := r.api.try(http.MethodPost, "/api/v1/dlq/messages/"+id+"/retry", nil); status {
		case http.StatusOK:
			r.resolved = append(r.resolved, id)
			r.luck.count("single retries")
		case http.StatusConflict:
		default:
			wantUnavailable(r.t, answer{status, body}, "retry", 502, 503)
		}
	}
}

// meanwhile calls load repeatedly, as long as the function work runs.
func (r *replicated) meanwhile(what string, work func() error) {
	r.t.Helper()
	done := make(chan error, 1)
	go func() { done <- work() }()
	r.until(what, func() bool {
		select {
		case err := <-done:
			check.NoError(r.t, err)
			return true
		default:
			return false
		}
	})
}

// starts starts the broker with this id under load, and waits until every replica is in sync.
func (r *replicated) starts(id int) {
	r.t.Helper()
	r.meanwhile("a broker starts", func() error { return r.own.Broker(id).Start(r.t.Context()) })
	r.inSync()
}

// inSync waits until each partition has three replicas in sync, and a leader.
func (r *replicated) inSync() {
	r.t.Helper()
	r.until("every replica is in sync", func() bool {
		all := r.replicas()
		return len(all) > 0 && !slices.ContainsFunc(all, func(p replicas) bool { return p.leader < 0 || len(p.inSync) < 3 })
	})
}

// replicas names the brokers that have a replica of one partition.
type replicas struct {
	topic     string
	partition int32
	leader    int32
	all       []int32
	inSync    []int32
}

func (p replicas) followers() []int32 {
	return slices.DeleteFunc(slices.Clone(p.all), func(id int32) bool { return id == p.leader })
}

// replicas returns the replicas of all partitions of the test's topics, and of the topic with the consumer groups'
// offsets.
func (r *replicated) replicas() (all []replicas) {
	r.t.Helper()
	res, err := metadataOf(r.source, r.target, "__consumer_offsets").RequestWith(r.t.Context(), r.kafka.client)
	if err != nil {
		return nil
	}
	for _, t := range res.Topics {
		for _, p := range t.Partitions {
			all = append(all, replicas{topic: *t.Topic, partition: p.Partition, leader: p.Leader, all: p.Replicas, inSync: p.ISR})
		}
	}
	return all
}

// metadataOf returns a request for the metadata of topics. A broker answers it; the clients' own methods may use a cache.
func metadataOf(topics ...string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	for _, name := range topics {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = &name
		req.Topics = append(req.Topics, topic)
	}
	return req
}

// leader returns the id of the broker that leads partition 0 of the target topic.
func (r *replicated) leader() (id int) {
	r.t.Helper()
	r.until("the target has a leader", func() bool {
		for _, p := range r.replicas() {
			if p.topic == r.target && p.partition == 0 && p.leader > 0 {
				id = int(p.leader)
			}
		}
		return id > 0
	})
	return id
}

// leaves waits under load until the broker with this id leads no partition.
func (r *replicated) leaves(id int) {
	r.t.Helper()
	r.until("other brokers lead", func() bool {
		all := r.replicas()
		return len(all) > 0 && !slices.ContainsFunc(all, func(p replicas) bool { return p.leader < 0 || int(p.leader) == id })
	})
}

// leadersMove gives each partition another leader, three times. This also moves the coordinator of the ingester's
// consumer group, which is the leader of a partition of the offsets topic.
func (r *replicated) leadersMove() {
	for range 3 {
		before := r.replicas()
		r.reassign(func(p replicas) []int32 { return append(p.followers(), p.leader) })
		elect := kmsg.NewPtrElectLeadersRequest()
		// A request without topics means all topics: each partition gets its first replica as leader.
		res, err := elect.RequestWith(r.t.Context(), r.kafka.client)
		check.Require(r.t, err == nil && res.ErrorCode == 0, "elect leaders: %v, %+v", err, res)
		r.until("every partition has another leader", func() bool {
			now := r.replicas()
			return len(now) == len(before) && !slices.ContainsFunc(now, func(p replicas) bool {
				return p.leader < 0 || slices.ContainsFunc(before, func(b replicas) bool {
					return b.topic == p.topic && b.partition == p.partition && b.leader == p.leader
				})
			})
		})
	}
}

// replicasAreReassigned removes the replica of each partition that its leader holds. After other brokers lead the
// partitions, it adds these replicas again.
func (r *replicated) replicasAreReassigned() {
	whole := map[string][]int32{}
	r.reassign(func(p replicas) []int32 {
		whole[p.topic] = p.all
		return p.followers()
	})
	r.until("two replicas are left", func() bool {
		all := r.replicas()
		return len(all) > 0 && !slices.ContainsFunc(all, func(p replicas) bool { return len(p.all) != 2 || p.leader < 0 })
	})
	r.reassign(func(p replicas) []int32 { return whole[p.topic] })
	r.inSync()
}

func (r *replicated) reassign(to func(replicas) []int32) {
	r.t.Helper()
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	req.TimeoutMillis = 20_000
	for _, p := range r.replicas() {
		topic := kmsg.NewAlterPartitionAssignmentsRequestTopic()
		partition := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
		topic.Topic, partition.Partition, partition.Replicas = p.topic, p.partition, to(p)
		topic.Partitions = append(topic.Partitions, partition)
		req.Topics = append(req.Topics, topic)
	}
	res, err := req.RequestWith(r.t.Context(), r.kafka.client)
	check.Require(r.t, err == nil && res.ErrorCode == 0 && len(res.Topics) > 0, "reassign: %v, %+v", err, res)
}

func (r *replicated) brokerIsKilled() {
	id := r.leader()
	check.NoError(r.t, r.own.Broker(id).Kill())
	r.leaves(id)
	r.starts(id)
}

// brokerStandsStill suspends a broker that leads partitions. It resumes the broker after other brokers lead these
// partitions and after the claims on messages that were being sent to it have expired. The resumed broker still
// considers itself the leader of its partitions.
func (r *replicated) brokerStandsStill() {
	id := r.leader()
	check.NoError(r.t, r.own.Broker(id).Pause())
	r.leaves(id)
	for began := time.Now(); time.Since(began) < 13*time.Second; { // longer than the time after which a claim expires
		r.load()
	}
	check.NoError(r.t, r.own.Broker(id).Resume())
	r.inSync()
}

// tooFewInSync kills one of the three brokers while the target topic requires three replicas in sync. The API then
// refuses every retry, but the ingester still stores dead letters.
func (r *replicated) tooFewInSync() {
	r.minInSync("3")
	id := r.leader()
	check.NoError(r.t, r.own.Broker(id).Kill())
	r.leaves(id)
	status, body := r.api.try(http.MethodPost, "/api/v1/dlq/messages/"+r.some("status = 'PENDING' ORDER BY id DESC")+"/retry", nil)
	wantUnavailable(r.t, answer{status, body}, "retry", 502, 503)
	stored := r.count("true")
	r.until("dead letters are stored meanwhile", func() bool { return r.count("true") >= stored+20 })
	r.starts(id)
	r.minInSync("2")
}

func (r *replicated) minInSync(n string) {
	r.t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	resource, setting := kmsg.NewIncrementalAlterConfigsRequestResource(), kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, r.target
	setting.Name, setting.Value = "min.insync.replicas", kmsg.StringPtr(n)
	resource.Configs = append(resource.Configs, setting)
	req.Resources = append(req.Resources, resource)
	res, err := req.RequestWith(r.t.Context(), r.kafka.client)
	check.Require(r.t, err == nil && res.Resources[0].ErrorCode == 0, "alter configuration: %v, %+v", err, res)
}

// twoAreKilled kills two of the three brokers for some time. Until they are started again, the third broker
// acknowledges no record and elects no leader.
func (r *replicated) twoAreKilled() {
	id := r.leader()
	others := []int{id%3 + 1, (id+1)%3 + 1}
	for _, other := range others {
		check.NoError(r.t, r.own.Broker(other).Kill())
	}
	lasting(15 * time.Second) // longer than the time after which a claim expires
	status, body := r.api.try(http.MethodPost, "/api/v1/dlq/messages/"+r.some("status = 'PENDING' ORDER BY id DESC")+"/retry", nil)
	wantUnavailable(r.t, answer{status, body}, "retry", 502, 503)
	for _, other := range others {
		check.NoError(r.t, r.own.Broker(other).Start(r.t.Context()))
	}
}

func (r *replicated) everyBrokerRestarts() {
	for id := 1; id <= 3; id++ {
		r.meanwhile("a broker stops", r.own.Broker(id).Stop)
		r.starts(id)
	}
}
