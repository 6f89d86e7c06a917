package scaling

import (
	"fmt"
	"math"
)

// headroom is how much more than the peak is planned: one shard of three may be
// rebuilt, and nobody's estimate is exact.
const headroom = 1.5

// rowDisk is what a live row takes: stored, with its document. What a retry adds
// is given back by vacuum and counts as headroom.
func (in Inputs) rowDisk() float64 { return in.StoreDisk.Value + in.CatalogueDisk.Value }

// Need is how many shards one demand asks for.
type Need struct {
	Why    string
	Each   string // what a shard does
	Shards int
}

func shards(demand, each float64) int { return max(1, int(math.Ceil(headroom*demand/each))) }

// Needs are the demands on the number of shards.
func Needs(in Inputs) []Need {
	store := Least(Limits(in, in.store()))
	life := Least(Limits(in, in.life()))
	document := Least(Limits(in, in.document()))
	disk := in.NodeDisk.Value * in.NodeDiskUse.Value
	average := in.TotalRows.Value / (in.LiveDays.Value * 86400)
	return []Need{
		{
			fmt.Sprintf("storing %s at the peak", in.PeakRate.text()),
			rate(store.Rate) + " (" + store.Resource + ")", shards(in.PeakRate.Value, store.Rate),
		},
		{
			fmt.Sprintf("the whole life of every message at the peak, %s", in.PeakRate.text()),
			rate(life.Rate) + " (" + life.Resource + ")", shards(in.PeakRate.Value, life.Rate),
		},
		{
			fmt.Sprintf("the whole life at the average of %s rows in %s days, %s", number(in.TotalRows.Value), in.LiveDays.text(), rate(average)),
			rate(life.Rate) + " (" + life.Resource + ")", shards(average, life.Rate),
		},
		{
			fmt.Sprintf("the catalogue at that average, %s", rate(average)),
			rate(document.Rate) + " (" + document.Resource + ")", shards(average, document.Rate),
		},
		{
			fmt.Sprintf("%s live rows on disk, %s", number(in.TotalRows.Value), size(in.TotalRows.Value*in.rowDisk())),
			size(disk), shards(in.TotalRows.Value*in.rowDisk(), disk),
		},
	}
}

// Shards is the plan: what storing the peak and keeping the rows ask for, as a power
// of two, so that a shard can be split in halves. Retries and the archive wait for
// the burst to be over.
func Shards(in Inputs) int {
	needs := Needs(in)
	most := max(needs[0].Shards, needs[2].Shards, needs[3].Shards, needs[4].Shards)
	return int(math.Pow(2, math.Ceil(math.Log2(float64(most)))))
}

// PartitionsAShard spreads the keys of a shard: see the simulation of a burst.
const PartitionsAShard = 12

func clusterTable(in Inputs) Table {
	t := Table{Name: "cluster", Heading: []string{"demand", "one does", "needed, times 1.5"}}
	row := func(cells ...string) { t.Rows = append(t.Rows, cells) }
	for _, n := range Needs(in) {
		row("shards: "+n.Why, n.Each, number(float64(n.Shards)))
	}
	s := float64(Shards(in))
	peak := in.PeakRate.Value
	row("**shards, planned**", "a power of two, without the whole life at the peak", fmt.Sprintf("**%.0f**", s))
	row("ingesters", rate(IngesterRate(in)), fmt.Sprintf("%d, planned one a shard: %.0f", shards(peak, IngesterRate(in)), s))
	row("processors for them", number(in.IngestIngester.Value)+" µs a record", fmt.Sprintf("%.1f", headroom*peak*in.IngestIngester.Value*micro))
	row("partitions", rate(PartitionRate(in)), fmt.Sprintf("%d, planned %d a shard: %.0f", shards(peak, PartitionRate(in)), PartitionsAShard, s*PartitionsAShard))
	row("Kafka: written, three replicas", size(in.RecordBytes.Value)+" a record", size(3*peak*in.RecordBytes.Value)+"/s over all brokers")
	row("Kafka: kept at the peak all the time, three replicas", in.BrokerDays.text()+" days", size(3*peak*in.RecordBytes.Value*in.BrokerDays.Value*86400))
	row("PostgreSQL: log at the peak", size(in.StoreWAL.Value)+" a record",
		size(peak*in.StoreWAL.Value)+"/s, "+size(peak*in.StoreWAL.Value/s)+"/s a shard")
	row("PostgreSQL: processors at the peak", number(in.IngestPostgres.Value)+" µs a record",
		fmt.Sprintf("%.1f, %.2f a shard", peak*in.IngestPostgres.Value*micro, peak*in.IngestPostgres.Value*micro/s))
	row("connections of ingesters, a shard", in.Writers.text()+" writers and one for positions", number(in.Writers.Value+1)+" for each of its ingesters")
	return t
}

// redriveTable is how long it takes to send many messages back.
func redriveTable(in Inputs) Table {
	t := Table{Name: "redrive", Heading: []string{"messages", "measured machine", "one shard", "all shards", "PostgreSQL, all", "APIs, all", "log, all", "connections at work, a shard"}}
	each := Least(Limits(in, in.retry())).Rate
	s := float64(Shards(in))
	for _, n := range []float64{1e5, 1e7, 1e9} {
		t.Rows = append(t.Rows, []string{
			number(n), duration(n / in.RetryRate.Value), duration(n / each), duration(n / each / s),
			duration(n*in.RetryPostgres.Value*micro) + " of processor", duration(n*in.RetryAPI.Value*micro) + " of processor",
			size(n * in.RetryWAL.Value), number(math.Ceil(each * in.RetryPostgres.Value * micro)),
		})
	}
	return t
}
