package scaling

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Burst is a flood of dead letters that meets a group of ingesters. Time goes by in
// seconds; a partition belongs to one ingester.
type Burst struct {
	Records    float64
	Seconds    float64 // in which they come, evenly
	Partitions int
	Skew       float64 // partition k gets a share of 1/k to the power of this
	Ingesters  int
	Partition  float64 // most of a partition, a second
	Ingester   float64 // most of an ingester
}

// Caught is how it ended.
type Caught struct {
	Peak    float64 // most that waited
	Seconds float64 // from the first record's coming to the last one's being stored
}

// endless bounds the simulation.
const endless = 1_000_000

// Run plays the burst. The seed decides which partitions get the large shares.
func (b Burst) Run(seed uint64) Caught {
	random := rand.New(rand.NewPCG(seed, 7))
	shares := b.shares()
	random.Shuffle(len(shares), func(i, j int) { shares[i], shares[j] = shares[j], shares[i] })
	waiting := make([]float64, b.Partitions)
	var out Caught
	for second := range endless {
		left := 0.0
		for p := range waiting {
			if float64(second) < b.Seconds {
				waiting[p] += shares[p] * b.Records / b.Seconds
			}
		}
		for i := range b.Ingesters {
			b.serve(waiting, i)
		}
		for _, w := range waiting {
			left += w
		}
		out.Peak = max(out.Peak, left)
		if left < 1 && float64(second+1) >= b.Seconds {
			out.Seconds = float64(second + 1)
			return out
		}
	}
	out.Seconds = math.Inf(1)
	return out
}

func (b Burst) shares() []float64 {
	shares, sum := make([]float64, b.Partitions), 0.0
	for p := range shares {
		shares[p] = math.Pow(float64(p+1), -b.Skew)
		sum += shares[p]
	}
	for p := range shares {
		shares[p] /= sum
	}
	return shares
}

// serve takes one second of an ingester's work from its partitions, the shortest
// queue first, so that what it leaves is where most waits.
func (b Burst) serve(waiting []float64, ingester int) {
	var own []int
	for p := ingester; p < b.Partitions; p += b.Ingesters {
		own = append(own, p)
	}
	slices.SortStableFunc(own, func(a, c int) int {
		if waiting[a] < waiting[c] {
			return -1
		}
		return 1
	})
	left := b.Ingester
	for i, p := range own {
		n := min(waiting[p], b.Partition, left/float64(len(own)-i))
		waiting[p] -= n
		left -= n
	}
}

// seeds is how often a burst is played.
const seeds = 20

// Played is the median and the worst of all seeds.
func (b Burst) Played() (median, worst Caught) {
	var all []Caught
	for seed := range uint64(seeds) {
		all = append(all, b.Run(seed))
	}
	slices.SortFunc(all, func(a, c Caught) int { return int(math.Copysign(1, a.Seconds-c.Seconds)) })
	return all[seeds/2], all[seeds-1]
}

func backlogTable(in Inputs) Table {
	t := Table{Name: "backlog", Heading: []string{
		"burst", "shards", "ingesters", "partitions", "skew", "most that waits", "all stored after", "worst of 20", "if it were even, without limits of partitions",
	}}
	s := Shards(in)
	store := Least(Limits(in, in.store())).Rate
	for _, c := range []struct {
		records, seconds        float64
		shards, ing, partitions int
		skew                    float64
	}{
		{1e6, 60, 1, 1, 12, 0},
		{60e6, 600, 1, 4, 12, 0},
		{60e6, 600, 2, 4, 12, 0},
		{60e6, 600, 2, 4, 12, 1},
		{60e6, 600, 2, 4, 48, 1},
		{60e6, 600, s, s, s * PartitionsAShard, 0},
		{60e6, 600, s, s, s * PartitionsAShard, 0.5},
		{60e6, 600, s, s, s * PartitionsAShard, 1},
	} {
		// A shard's rate is dealt evenly to its ingesters.
		each := min(IngesterRate(in), store*float64(c.shards)/float64(c.ing))
		b := Burst{
			Records: c.records, Seconds: c.seconds, Partitions: c.partitions, Skew: c.skew, Ingesters: c.ing,
			Partition: PartitionRate(in), Ingester: each,
		}
		median, worst := b.Played()
		t.Rows = append(t.Rows, []string{
			fmt.Sprintf("%s in %s", number(c.records), duration(c.seconds)), number(float64(c.shards)), number(float64(c.ing)), number(float64(c.partitions)), number(c.skew),
			rough(median.Peak), duration(median.Seconds), duration(worst.Seconds),
			duration(max(c.seconds, c.records/(float64(c.ing)*b.Ingester))),
		})
	}
	return t
}
