// Package recordtest measures work that is done for every record: tests check how often it allocates, benchmarks
// measure its duration.
package recordtest

import "testing"

// Path is work that the programs do for every record. Do does the work for a number of records, which is Records.
// Allocations is the expected number of allocations per record.
type Path struct {
	Name        string
	Allocations float64
	Records     int
	Do          func()
}

// Allocations fails the test when a path makes more allocations than Path.Allocations says. It also fails when a path
// makes fewer, because the outdated number would hide the next increase. The count is the same on every machine. The
// test must not be parallel: allocations of other tests would be counted.
func Allocations(t *testing.T, paths []Path) {
	t.Helper()
	for _, path := range paths {
		got := testing.AllocsPerRun(100, path.Do) / float64(path.Records)
		t.Logf("%s: %.2f allocations a record", path.Name, got)
		spare := 0.5
		if path.Records > 1 {
			// The tolerance is small, because an allocation that a call makes only once is divided among many records and so
			// hardly changes got.
			spare = 0.05
		}
		if got > path.Allocations+spare {
			t.Errorf("%s: allocations of a record = %.2f, want at most %.2f", path.Name, got, path.Allocations+spare)
		}
		if got < path.Allocations-1 {
			t.Errorf("%s: allocations of a record = %.2f, lower the bound: it is %.2f", path.Name, got, path.Allocations)
		}
	}
}

// Benchmark reports the time per record on each path.
func Benchmark(b *testing.B, paths []Path) {
	b.Helper()
	for _, path := range paths {
		b.Run(path.Name, func(b *testing.B) {
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				path.Do()
				n += path.Records
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/record")
		})
	}
}
