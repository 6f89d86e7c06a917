package scaling_test

import (
	"math"
	"testing"

	"github.com/dlq-manager/dlq-manager/integration/scaling"
)

func TestInputsAreSaidInFull(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, f := range figures(t).All() {
		if f.Name == "" || f.Source == "" || f.Value <= 0 {
			t.Errorf("got %+v, want a name, a source and a value", f)
		}
		if names[f.Name] {
			t.Errorf("two figures are called %q", f.Name)
		}
		names[f.Name] = true
	}
}

// The parts' processor times must explain the measured rates: else processors are
// not the limit, and no table that adds them up says anything.
func TestPartsExplainTheMeasuredRates(t *testing.T) {
	t.Parallel()
	in := figures(t)
	for _, c := range []struct {
		name     string
		parts    []scaling.Figure
		measured scaling.Figure
		others   scaling.Figure
	}{
		{"ingest", []scaling.Figure{in.IngestPostgres, in.IngestIngester, in.IngestKafka}, in.IngestRate, in.IngestOthers},
		{"retry", []scaling.Figure{in.RetryPostgres, in.RetryAPI, in.RetryKafka}, in.RetryRate, in.RetryOthers},
	} {
		sum := 0.0
		for _, p := range c.parts {
			sum += p.Value
		}
		left := in.Cores.Value * (1 - c.others.Value/100)
		if got := c.measured.Value * sum / 1e6 / left; got < 0.8 || got > 1.02 {
			t.Errorf("%s: the parts make %.2f of the processors busy, want 0.8 to 1.02", c.name, got)
		}
	}
}

func TestPlanMeetsItsDemands(t *testing.T) {
	t.Parallel()
	in := figures(t)
	shards := scaling.Shards(in)
	if shards&(shards-1) != 0 {
		t.Errorf("got %d shards, want a power of two", shards)
	}
	if got := scaling.PartitionRate(in) * float64(shards*scaling.PartitionsAShard); got < in.PeakRate.Value {
		t.Errorf("the partitions let %.0f/s through, want %.0f", got, in.PeakRate.Value)
	}
	if got := scaling.IngesterRate(in) * float64(shards); got < in.PeakRate.Value {
		t.Errorf("the ingesters store %.0f/s, want %.0f", got, in.PeakRate.Value)
	}
	dearer := in
	dearer.StoreDisk.Value *= 4
	if got := scaling.Shards(dearer); got <= shards {
		t.Errorf("got %d shards of rows four times as large, want more than %d", got, shards)
	}
}

func TestLeastLimit(t *testing.T) {
	t.Parallel()
	got := scaling.Least([]scaling.Limit{{Resource: "a", Rate: 3}, {Resource: "b", Rate: 1}, {Resource: "c", Rate: 2}})
	if got.Resource != "b" {
		t.Errorf("Least = %q, want b", got.Resource)
	}
}

func TestTouched(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ shards, rows, want float64 }{{16, 1, 1}, {16, 1000, 16}, {2, 2, 1.5}} {
		if got := scaling.Touched(c.shards, c.rows); math.Abs(got-c.want) > 0.001 {
			t.Errorf("Touched(%v, %v) = %v, want %v", c.shards, c.rows, got, c.want)
		}
	}
}

func TestBurst(t *testing.T) {
	t.Parallel()
	even := scaling.Burst{Records: 1_200_000, Seconds: 10, Partitions: 12, Ingesters: 2, Partition: 10_000, Ingester: 30_000}
	t.Run("WithoutSkewTheIngestersAreTheLimit", func(t *testing.T) {
		t.Parallel()
		if got := even.Run(1); got.Seconds != 20 || got.Peak != 600_000 {
			t.Errorf("Run = %+v, want 20 s and a peak of 600,000: 120,000 come and 60,000 go a second", got)
		}
	})
	t.Run("OnePartitionIsTheLimitOfAHotKey", func(t *testing.T) {
		t.Parallel()
		hot := even
		hot.Skew = 50 // all records are in one partition
		if got := hot.Run(1); got.Seconds != 120 {
			t.Errorf("Run took %v s, want 120: 1,200,000 at 10,000 a second", got.Seconds)
		}
	})
	t.Run("SeedsRepeat", func(t *testing.T) {
		t.Parallel()
		skewed := even
		skewed.Skew = 1
		if a, b := skewed.Run(3), skewed.Run(3); a != b {
			t.Errorf("Run(3) = %+v and then %+v, want the same", a, b)
		}
		median, worst := skewed.Played()
		if median.Seconds < 20 || worst.Seconds < median.Seconds {
			t.Errorf("Played = %+v, %+v: want at least what it takes without skew, and the worst no better", median, worst)
		}
	})
	t.Run("NothingIsLost", func(t *testing.T) {
		t.Parallel()
		none := even
		none.Ingester = 0
		if got := none.Run(1); !math.IsInf(got.Seconds, 1) || math.Abs(got.Peak-none.Records) > 1 {
			t.Errorf("Run without ingesters' work = %+v, want no end and all waiting", got)
		}
	})
}

func TestVacuum(t *testing.T) {
	t.Parallel()
	in := figures(t)
	in.HeapBytes.Value = 731
	few, many := scaling.NewVacuum(in, 10e6).Run(100), scaling.NewVacuum(in, 10e6).Run(50_000)
	if few.Dead < 0.02 || few.Dead > 0.03 || few.Busy > 0.02 {
		t.Errorf("100 retries a second: %+v, want hardly more dead rows than the threshold", few)
	}
	// 200,000 dead rows are there after 1,000 s.
	if math.Abs(few.Busy-few.Pass/1000) > 0.0001 || math.Abs(few.Visited-0.2) > 0.02 {
		t.Errorf("100 retries a second: %+v, want passes every 1,000 s that visit a fifth of pages with 11 rows", few)
	}
	heap := in
	heap.HeapBytes.Value *= 2
	if got := scaling.NewVacuum(heap, 10e6).Run(100); got.Visited >= few.Visited || got.Pass <= few.Pass {
		t.Errorf("rows twice as wide: %+v, want a smaller share of pages and a longer pass than %+v", got, few)
	}
	if many.Dead <= few.Dead || many.Busy <= few.Busy {
		t.Errorf("50,000 retries a second: %+v, want more than %+v", many, few)
	}
	// A pass removes what it found: with a pass of no time, never more than the
	// threshold is dead.
	in.VacuumRow.Value, in.VacuumDead.Value, in.IndexBytes.Value, in.HeapBytes.Value = 0, 0, 0, 0
	if got := scaling.NewVacuum(in, 10e6).Run(50_000); math.Abs(got.Dead-0.02) > 0.0001 || got.Busy != 0 {
		t.Errorf("with passes of no time: %+v, want 2 %% dead and never busy", got)
	}
}

// A database has one worker, however many processors it has.
func TestCatalogueIsOneWorkers(t *testing.T) {
	t.Parallel()
	in := figures(t)
	planned, _ := scaling.Needs(in, in.Random)
	in.NodeCores.Value *= 8
	in.Replay.Value *= 8
	in.NodeWAL.Value *= 8
	more, _ := scaling.Needs(in, in.Random)
	if planned[2].Shards != 5 || more[2].Shards != 5 {
		t.Errorf("the catalogue asks for %d shards, and %d of larger nodes, want 5: 1.5 × 3,858 /s × 780 µs", planned[2].Shards, more[2].Shards)
	}
}
