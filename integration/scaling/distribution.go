package scaling

import (
	"fmt"
	"math"
)

// Touched is how many of s shards a batch of n rows is expected to touch when
// rows go anywhere.
func Touched(s, n float64) float64 { return s * (1 - math.Pow(1-1/s, n)) }

// Collision is the chance that any two of all ids are the same, when they are made
// at the peak by processes that do not know each other: 74 bits are left to chance
// within a millisecond. It is a bound from above: within a process ids ascend.
func Collision(in Inputs) float64 {
	each := in.PeakRate.Value / 1000
	milliseconds := in.TotalRows.Value / each
	return milliseconds * each * (each - 1) / 2 / math.Pow(2, 74)
}

// SlowPage is the chance that at least one of s answers is slower than what 99 of
// 100 keep to.
func SlowPage(s float64) float64 { return 1 - math.Pow(0.99, s) }

func distributionTable(in Inputs) Table {
	s := float64(Shards(in))
	byID := Touched(s, in.Batch.Value)
	return Table{
		Name:    "distribution",
		Heading: []string{"question", "by dead-letter topic and partition", "by id"},
		Rows: [][]string{
			{"shards that a batch of ingest touches", "1", number(byID)},
			{"waits for a disk, for that batch to be exactly once", "1: a commit", fmt.Sprintf("%.0f: each shard prepares and commits, and the coordinator notes it", 2*byID+1)},
			{"log and processor for finding the shard of an id", "the shard stands in the id, or all " + number(s) + " are asked", "none"},
			{"shards asked for a page of all messages", number(s), number(s)},
			{"a page of which at least one part is slower than 99 of 100", percent(SlowPage(s)), percent(SlowPage(s))},
			{"rows read for a page of 50", number(50 * s), number(50 * s)},
			{"replays that come back in another shard than their parent", "0 % if partitions are kept, else " + percent(1-1/s), percent(1 - 1/s)},
			{"two messages of one id, in all " + number(in.TotalRows.Value), fmt.Sprintf("chance below %.0e", Collision(in)), "refused by the key"},
			{"a record stored twice", "refused by the position", "refused by the position, by two-phase commit only"},
		},
	}
}
