package deadletter

import "testing"

// BenchmarkRecord is what one record costs on each of its paths here.
func BenchmarkRecord(b *testing.B) {
	for _, path := range recordPaths(b) {
		b.Run(path.name, func(b *testing.B) {
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				path.do()
				n += path.records
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/record")
		})
	}
}
