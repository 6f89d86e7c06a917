package schemas_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/big"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlq-manager/dlq-manager/integration/registry/official"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// parcelSchema returns an Avro schema of parcels. The parameter sent is the name of the second status, and carrier is
// the type of the field carrier.
func parcelSchema(sent, carrier string) string {
	return `{"type": "record", "name": "Parcel", "namespace": "com.acme", "fields": [
		{"name": "id", "type": "string"},
		{"name": "status", "type": {"type": "enum", "name": "Status", "symbols": ["NEW", "` + sent + `"]}},
		{"name": "carrier", "type": ` + carrier + `},
		{"name": "weight", "type": {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 3}}]}`
}

var (
	oldParcels = parcelSchema("SENT", `["null", "string"]`)
	newParcels = parcelSchema("SHIPPED", `"string"`)
)

// pick returns the parameter short, or the parameter long if DLQ_TEST_LONG=1.
func pick(short, long int) int {
	if os.Getenv("DLQ_TEST_LONG") == "1" {
		return long
	}
	return short
}

// framed returns the prefix that names the schema with this id, followed by the value.
func framed(id int, value []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(id)), value...)
}

// redrive holds those fields of the API's answers about a redrive that the test compares or prints.
type redrive struct {
	ID       string
	State    string
	Note     *string
	Selected int
	Sendable int
	Reasons  map[string]int

	PatchChecked  int  `json:"patch_checked"`
	PatchFailed   int  `json:"patch_failed"`
	PatchComplete bool `json:"patch_complete"`
	PatchFailures []struct {
		Reason   string
		Messages int
	} `json:"patch_failures"`

	Succeeded, Failed, Skipped, Waiting int
}

// The schema of parcels changes: a symbol of an enum gets another name, and the field carrier, which was optional, must
// have a value. A redrive with a patch repairs all records that have a carrier, and a consumer of the new schema gets
// each of these records once. The messages without a carrier stay PENDING.
func TestMassRepair(t *testing.T) {
	s := newSite(t, "")
	parcels, dead := s.topic("parcels"), s.topic("parcels.dlq.v1")
	s.register(parcels+"-value", official.Avro, oldParcels, nil) // id 1
	s.register(parcels+"-value", official.Avro, newParcels, nil) // id 2
	group := s.prefix + "-delivery"
	all := pick(2_300, 23_000)
	misfits := s.deadParcels(dead, parcels, group, all)
	s.start("ingester")
	s.start("api")
	consumer := s.strictConsumer(parcels, group, all)

	var groups struct {
		Groups []struct {
			ID     string
			Counts map[string]int
		}
	}
	check.Eventually(t, "one error group has all messages", func() bool {
		s.call(http.MethodGet, "/api/v1/groups?topic="+parcels, nil, http.StatusOK, &groups)
		return len(groups.Groups) == 1 && groups.Groups[0].Counts["PENDING"] == all
	})
	filter := map[string]any{"group_id": groups.Groups[0].ID}
	check.Equal(t, len(s.pages("/api/v1/messages?omit=payload&group_id="+groups.Groups[0].ID, "messages")), all,
		"messages of the error group")

	order := map[string]any{
		"filter": filter, "schema": "latest", "canary": 50, "reason": "SENT has the name SHIPPED now",
		"patch": []any{map[string]any{"op": "replace", "path": "/status", "value": "SHIPPED"}},
	}
	check.Eventually(t, "a dry run has checked all messages", func() bool {
		order["dry_run"] = true
		var plan redrive
		s.call(http.MethodPost, "/api/v1/redrives", order, http.StatusOK, &plan)
		if !plan.PatchComplete {
			return false
		}
		check.Equal(t, plan.PatchChecked, all, "messages to which the dry run applied the patch")
		check.Equal(t, plan.PatchFailed, misfits, "messages that the patch does not fit")
		check.Equal(t, plan.Sendable, all-misfits, "messages that would be sent")
		check.Require(t, len(plan.PatchFailures) == 1, "reasons %v, want one", plan.PatchFailures)
		check.Equal(t, plan.PatchFailures[0].Messages, misfits, "messages with the reason")
		check.True(t, strings.HasPrefix(plan.PatchFailures[0].Reason, "$.carrier:"), "reason %q, want one of $.carrier",
			plan.PatchFailures[0].Reason)
		return true
	})

	delete(order, "dry_run")
	var done redrive
	s.call(http.MethodPost, "/api/v1/redrives", order, http.StatusAccepted, &done)
	check.Equal(t, done.State, "canary", "state of the new redrive")
	check.Eventually(t, "the redrive is finished", func() bool {
		s.call(http.MethodGet, "/api/v1/redrives/"+done.ID, nil, http.StatusOK, &done)
		check.Require(t, done.State == "canary" || done.State == "running" || done.State == "finished", "redrive %+v", done)
		return done.State == "finished"
	})
	check.Equal(t, []int{done.Selected, done.Succeeded, done.Skipped}, []int{all, all - misfits, misfits},
		"selected, succeeded and skipped messages")

	consumer.wantEach(parcels, all)
	s.await("the outcome of all repaired messages is consumed", func() bool {
		return len(s.pages("/api/v1/redrives/"+done.ID+"/items?outcome=consumed", "items")) == all-misfits
	})
	skipped := s.pages("/api/v1/redrives/"+done.ID+"/items?result=skipped", "items")
	check.Equal(t, len(skipped), misfits, "skipped items")
	for _, item := range skipped {
		check.Equal(t, item["reason"], any("patch_failed"), "reason of an item")
	}
	pending := s.pages("/api/v1/messages?status=PENDING&topic="+parcels, "messages")
	check.Equal(t, len(pending), misfits, "messages that are still PENDING")
	for _, m := range pending {
		check.Equal(t, m["payload"].(map[string]any)["carrier"], nil, "carrier of a message that is PENDING")
	}
}

// hasCarrier reports whether the i-th parcel can be repaired.
func hasCarrier(i int) bool { return i%23 != 7 }

// deadParcels writes dead letters of n parcels, encoded with the old schema. It returns the number of these parcels
// that have no carrier.
func (s *site) deadParcels(dead, parcels, group string, n int) (misfits int) {
	s.t.Helper()
	schema := check.Must(avro.Parse(oldParcels))(s.t)
	records := make([]*kgo.Record, n)
	for i := range records {
		parcel := map[string]any{"id": parcelID(i), "status": "SENT", "carrier": "swift", "weight": big.NewRat(7, 1000)}
		if !hasCarrier(i) {
			parcel["carrier"] = nil
			misfits++
		}
		records[i] = &kgo.Record{
			Topic: dead, Key: []byte(parcelID(i)), Value: framed(1, check.Must(schema.Encode(parcel))(s.t)),
			Headers: []kgo.RecordHeader{
				{Key: "kafka_dlt-original-topic", Value: []byte(parcels)},
				{Key: "kafka_dlt-original-consumer-group", Value: []byte(group)},
				{Key: "kafka_dlt-exception-fqcn", Value: []byte("org.apache.avro.AvroTypeException")},
				{Key: "kafka_dlt-exception-message", Value: []byte("No match for SENT")},
			},
		}
	}
	s.produce(records...)
	return misfits
}

func parcelID(i int) string { return fmt.Sprintf("P-%05d", i) }

// strictConsumer reads a topic as a member of a consumer group, and can decode only records with the new schema of
// parcels.
type strictConsumer struct {
	*site
	schema  *avro.Schema
	records chan *kgo.Record // receives each record that this consumer has read
}

func (s *site) strictConsumer(topic, group string, most int) *strictConsumer {
	s.t.Helper()
	client := check.Must(kgo.NewClient(
		kgo.SeedBrokers(s.brokers...), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.AutoCommitInterval(100*time.Millisecond),
	))(s.t)
	c := &strictConsumer{s, check.Must(avro.Parse(newParcels))(s.t), make(chan *kgo.Record, 2*most)}
	go func() {
		for {
			fetches := client.PollFetches(context.Background())
			if fetches.IsClientClosed() {
				return
			}
			for _, r := range fetches.Records() {
				c.records <- r
			}
		}
	}()
	s.t.Cleanup(client.Close)
	return c
}

// wantEach checks that the topic contains one repaired record for each of the n parcels with a carrier, and no other
// record.
func (c *strictConsumer) wantEach(topic string, n int) {
	c.t.Helper()
	ends := check.Must(kadm.NewClient(c.kafka).ListEndOffsets(c.t.Context(), topic))(c.t)
	end, _ := ends.Lookup(topic, 0)
	got, hung := map[string]int{}, time.After(5*time.Minute)
	for range end.Offset {
		select {
		case r := <-c.records:
			got[c.parcel(r)]++
		case <-hung:
			c.t.Fatalf("records of %d parcels were read, want %d records", len(got), end.Offset)
		}
	}
	want := map[string]int{}
	for i := range n {
		if hasCarrier(i) {
			want[parcelID(i)] = 1
		}
	}
	check.Equal(c.t, got, want, "records by parcel")
}

// parcel decodes a record with the new schema, checks that the parcel is repaired, and returns its id.
func (c *strictConsumer) parcel(r *kgo.Record) string {
	c.t.Helper()
	check.Require(c.t, bytes.HasPrefix(r.Value, framed(2, nil)), "value %x does not have the new schema", r.Value)
	var parcel struct {
		ID      string   `avro:"id"`
		Status  string   `avro:"status"`
		Carrier string   `avro:"carrier"`
		Weight  *big.Rat `avro:"weight"`
	}
	rest, err := c.schema.Decode(r.Value[5:], &parcel)
	check.NoError(c.t, err)
	check.Require(c.t, len(rest) == 0, "%s has %d bytes after its value", parcel.ID, len(rest))
	check.Equal(c.t, parcel.Status+" "+parcel.Carrier+" "+parcel.Weight.FloatString(3), "SHIPPED swift 0.007", parcel.ID)
	check.Equal(c.t, string(r.Key), parcel.ID, "key")
	return parcel.ID
}

// pages returns all items of a list.
func (s *site) pages(path, list string) (all []map[string]any) {
	s.t.Helper()
	for cursor := ""; ; {
		var page map[string]any
		s.call(http.MethodGet, path+"&limit=1000"+cursor, nil, http.StatusOK, &page)
		for _, item := range page[list].([]any) {
			all = append(all, item.(map[string]any))
		}
		next, more := page["next_cursor"].(string)
		if !more {
			return all
		}
		cursor = "&cursor=" + url.QueryEscape(next)
	}
}
