package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlq-manager/dlq-manager/integration/registry"
)

const (
	schemaPairs  = 3
	minIngest    = 0.95 // Avro must be ingested at this share of JSON's rate at least; ingest decodes neither format
	minIndexing  = 0.6
	maxDecodedMS = 100 // the time for a page of decoded messages must be below it, in ms
)

// order is the value of a dead letter, see cluster.value.
type order struct {
	ID         int64
	Type       string
	Version    int64
	OccurredAt string `json:"occurred_at"`
	Customer   struct{ ID, Name, Email string }
	Items      []struct {
		SKU      string
		Quantity int64
		Price    float64
	}
	Paid     bool
	Discount *float64
	Note     string
}

const orderSchema = `{"type":"record","name":"Order","fields":[{"name":"id","type":"long"},{"name":"type","type":"string"},
	{"name":"version","type":"long"},{"name":"occurred_at","type":"string"},{"name":"customer","type":{"type":"record","name":"Customer",
	"fields":[{"name":"id","type":"string"},{"name":"name","type":"string"},{"name":"email","type":"string"}]}},
	{"name":"items","type":{"type":"array","items":{"type":"record","name":"Item","fields":[{"name":"sku","type":"string"},
	{"name":"quantity","type":"long"},{"name":"price","type":"double"}]}}},{"name":"paid","type":"boolean"},
	{"name":"discount","type":["null","double"]},{"name":"note","type":"string"}]}`

// avro encodes a JSON value in Avro with orderSchema, after the prefix that names the schema with this id.
func avro(id uint32, value []byte) []byte {
	var o order
	check(json.Unmarshal(value, &o))
	b := binary.BigEndian.AppendUint32([]byte{0}, id)
	text := func(s string) { b = append(binary.AppendVarint(b, int64(len(s))), s...) }
	number := func(n int64) { b = binary.AppendVarint(b, n) }
	number(o.ID)
	text(o.Type)
	number(o.Version)
	text(o.OccurredAt)
	text(o.Customer.ID)
	text(o.Customer.Name)
	text(o.Customer.Email)
	number(int64(len(o.Items)))
	for _, item := range o.Items {
		text(item.SKU)
		number(item.Quantity)
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(item.Price))
	}
	b = append(b, 0, map[bool]byte{true: 1}[o.Paid], 0) // the end of the list of items, paid or not, no discount
	text(o.Note)
	return b
}

// formats compares records in Avro with the same records in JSON, in turns.
type formats struct {
	*side
	n        int
	registry string // URL of the schema registry
	prefix   [2]string
	size     [2]int64

	ingest, index [2][]section
	page          []figure
}

// Formats, as indexes.
const (
	inJSON = iota
	inAvro
)

func schemas(ctx context.Context, s *side) []figure {
	server := httptest.NewServer(registry.New(registry.Options{}))
	defer server.Close()
	f := &formats{side: s, n: s.opts.count(recordsToDecode), registry: server.URL}
	f.produce(ctx, register(ctx, server.URL, "orders-value", orderSchema))
	for i := range 2 * schemaPairs {
		f.turn(ctx, (i+1)/2%2) // the formats take the first turn of a pair alternately
	}
	ingested, indexed := medians(f.ingest), medians(f.index)
	figures := []figure{
		ingested[inAvro].rate("ingest of Avro").comparedWith("JSON", ingested[inJSON].perSecond()).limit(minIngest * ingested[inJSON].perSecond()),
		indexed[inAvro].rate("search index of Avro").comparedWith("JSON", indexed[inJSON].perSecond()).limit(minIndexing * indexed[inJSON].perSecond()),
	}
	for i, format := range []int{inAvro, inJSON} {
		name := "search index of " + []string{"Avro", "JSON"}[i]
		figures = append(figures, indexed[format].processors(name, "api")...)
	}
	return append(figures, f.page...)
}

// register registers a schema and returns its id.
func register(ctx context.Context, url, subject, schema string) uint32 {
	body := must(json.Marshal(map[string]string{"schema": schema}))
	req := must(http.NewRequestWithContext(ctx, http.MethodPost, url+"/subjects/"+subject+"/versions", bytes.NewReader(body)))
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	check(err)
	defer res.Body.Close()
	var answer struct{ ID uint32 }
	check(json.NewDecoder(res.Body).Decode(&answer))
	if answer.ID == 0 {
		check(fmt.Errorf("register a schema: %s", res.Status))
	}
	return answer.ID
}

// produce writes records with the same contents in their values to a topic of each format.
func (f *formats) produce(ctx context.Context, id uint32) {
	var names [2]string
	for format := range f.prefix {
		f.prefix[format] = fmt.Sprintf("%sformat%d", f.id, f.next())
		names[format] = f.prefix[format] + "-0"
		f.kafka.create(ctx, deadLetterTopic(names[format]), originalTopic(names[format]))
	}
	for n := range f.n {
		r := f.kafka.letter(names[inJSON], n)
		other := f.kafka.letter(names[inAvro], n)
		other.Value = avro(id, r.Value)
		for format, r := range []*kgo.Record{r, other} {
			f.size[format] += int64(len(r.Value))
			f.kafka.client.Produce(ctx, r, func(_ *kgo.Record, err error) {
				if err != nil {
					f.say("produce: %v", err) // the run goes on: the counts after ingest will not be the wanted ones
				}
			})
		}
	}
	check(f.kafka.client.Flush(ctx))
}

// turn ingests and indexes the records of a format in a new database.
func (f *formats) turn(ctx context.Context, format int) {
	d := f.database(ctx, "format", f.prefix[format])
	defer f.drop(ctx, d)
	config := append(must(os.ReadFile(d.config)), fmt.Sprintf("schemas: {registries: [{name: main, url: %q}]}\n", f.registry)...)
	check(os.WriteFile(d.config, config, 0o600))
	d.settle(ctx)
	f.with(ctx, "ingester", d, func(ingester program) {
		f.ingest[format] = append(f.ingest[format], ingester.timed(func() int {
			await(ctx, time.Hour, 100*time.Millisecond, "ingest", func() bool { return ingester.stored(ctx) >= f.n })
			return f.n
		}))
	})
	d.expectIngested(ctx, f.n, f.size[format])
	d.settle(ctx)
	f.with(ctx, "api", d, func(api program) {
		f.index[format] = append(f.index[format], api.timed(func() int {
			api.awaitIndexed(ctx)
			return f.n
		}))
		if format == inJSON {
			return
		}
		path := fmt.Sprintf("/api/v1/messages?limit=%d", pageSize)
		decoded := bytes.Count(must(api.get(ctx, path)), []byte(`"payload_format":"avro"`))
		expect("decoded messages of a page", int64(decoded), int64(min(pageSize, f.n)))
		f.page = f.ask(ctx, api, "a page of 50 decoded messages", min(pageSize, f.n), path)
		for i := range f.page {
			f.page[i] = f.page[i].limit(maxDecodedMS)
		}
	}, noRedrives)
}

// medians returns, for each of the two formats, the section whose rate is the median.
func medians(all [2][]section) (middle [2]section) {
	for format, list := range all {
		slices.SortFunc(list, func(a, b section) int { return int(a.perSecond() - b.perSecond()) })
		middle[format] = list[len(list)/2]
	}
	return middle
}
