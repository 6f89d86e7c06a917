package schema

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/sr"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// While a topic requests large schemas all the time, the lists of another topic take less than 300 ms and decode
// everything, also what they need for the first time, and the process uses less than 256 MiB.
func TestLargeSchemasOfOthersHarmNobody(t *testing.T) {
	const others = 15
	megabyte := func(one, begin, end string) string {
		return begin + each((1<<20-1000)/(len(one)+4), "", one) + end
	}
	for name, attack := range map[string]func(f *fakeRegistry) int{ // returns the number of schemas, from id 10,000 on
		"ThreeOfOneMegabyte": func(f *fakeRegistry) int {
			f.answers["/schemas/ids/10000"] = object{"schemaType": "PROTOBUF", "schema": megabyte("message M%d {}", `syntax = "proto3";`, "")}
			f.answers["/schemas/ids/10001"] = object{"schemaType": "PROTOBUF", "schema": megabyte("V%d = %d;", `enum E {`, "}")}
			f.answers["/schemas/ids/10002"] = object{"schema": megabyte(`,"p%d":0`, `{"type":"record","name":"R","fields":[]`, "}")}
			return 3
		},
		"SixtyWithLargeImports": func(f *fakeRegistry) int {
			var refs []object
			for i := range 4 {
				file := fmt.Sprintf("large%d.proto", i)
				refs = append(refs, object{"name": file, "subject": file, "version": 1})
				f.answers["/subjects/"+file+"/versions/1"] = object{"version": 1, "schemaType": "PROTOBUF", "schema": fmt.Sprintf(
					"syntax = \"proto3\"; package p%d; %s", i, each(970_000/20, "", "message M%d {}"))}
			}
			for i := range 60 {
				f.answers[fmt.Sprintf("/schemas/ids/%d", 10_000+i)] = object{
					"schemaType": "PROTOBUF", "references": refs,
					"schema": fmt.Sprintf(`syntax = "proto3"; import "large0.proto"; message A%d { p0.M1 m = 1; }`, i),
				}
			}
			return 60
		},
		"SixtyOfTheLargestSize": func(f *fakeRegistry) int { // each may need nearly as much memory as one schema may
			for i := range 60 {
				f.answers[fmt.Sprintf("/schemas/ids/%d", 10_000+i)] = object{
					"schemaType": "PROTOBUF", "schema": fmt.Sprintf("syntax = \"proto3\"; package p%d; %s", i, each(11_500, "", "message M%d {}")),
				}
			}
			return 60
		},
		"SlowOnes": func(f *fakeRegistry) int { // the compiler's time grows with the square of the number of reserved names
			for i := range 60 {
				f.answers[fmt.Sprintf("/schemas/ids/%d", 10_000+i)] = object{
					"schemaType": "PROTOBUF", "schema": fmt.Sprintf("syntax = \"proto3\"; message M%d { reserved \"x\" %s;}", i, each(8000, "", `,"a%d"`)),
				}
			}
			return 60
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.Registries = []RegistryConfig{{Name: "main", URL: "http://registry"}}
			f := &fixture{fake: newFake()}
			f.Decoder = check.Must(New(cfg, prometheus.NewRegistry()))(t)
			client := &http.Client{Transport: limitedTransport{transport{f.fake}, 2*cfg.MaxBytes + 1<<20}}
			f.registries[0].client = check.Must(sr.NewClient(sr.URLs("http://registry"), sr.HTTPClient(client)))(t)
			n := attack(f.fake)
			for id := 100; id < 200; id++ {
				f.fake.answers[fmt.Sprintf("/schemas/ids/%d", id)] = object{"schema": strings.Replace(oldAvro, "Order", fmt.Sprint("Order", id), 1)}
			}
			for id := 100; id < 100+others; id++ {
				f.wantDecoded(t, "beta", id, "before")
			}
			debug.FreeOSMemory() // what earlier tests used

			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var attackers sync.WaitGroup
			var tries atomic.Int64
			for worker := range 6 {
				attackers.Go(func() {
					for i := worker; ctx.Err() == nil; i++ {
						m := message(framed(uint32(10_000+i%n), 0))
						m.Source.Topic = "alpha"
						f.Reader(ctx).Decode(m, entity.ValuePart, 1<<20)
						tries.Add(1)
						select {
						case <-time.After(time.Millisecond):
						case <-ctx.Done():
						}
					}
				})
			}
			var slowest, slowestFirst time.Duration
			most, lists, next := 0, 0, 100+others
			for began := time.Now(); time.Since(began) < 2500*time.Millisecond; lists++ {
				one := time.Now()
				for id := 100; id < 100+others; id++ {
					f.wantDecoded(t, "beta", id, "under attack")
				}
				slowest = max(slowest, time.Since(one))
				if lists%10 == 0 {
					one = time.Now()
					f.wantDecoded(t, "beta", next, "for the first time, under attack")
					slowestFirst = max(slowestFirst, time.Since(one))
					next++
				}
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				most = max(most, int(m.Sys-m.HeapReleased))
				pass(50 * time.Millisecond)
			}
			cancel()
			attackers.Wait()
			t.Logf("%d lists, the slowest took %s, a schema for the first time %s; %d MiB; %d tries of the attackers", lists, slowest, slowestFirst, most>>20, tries.Load())
			check.True(t, slowest < 300*time.Millisecond, "a list of another topic took %s", slowest)
			check.True(t, most < 256<<20*raceMemory, "the process used %d MiB", most>>20)
		})
	}
}
