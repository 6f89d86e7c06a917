package scaling

import (
	"fmt"
	"math"
)

// headroom is how much more than the peak is planned: one shard of three may be
// rebuilt, and nobody's estimate is exact.
const headroom = 1.5

// rowDisk is what a live row takes: stored, with the document of its text. What a
// retry adds is given back by vacuum and counts as headroom.
func (in Inputs) rowDisk(text Text) float64 { return in.StoreDisk.Value + text.Disk.Value }

// Need is how many shards one demand asks for.
type Need struct {
	Why    string
	Each   string // what a shard does
	Shards int
}

func shards(demand, each float64) int { return max(1, int(math.Ceil(headroom*demand/each))) }

// Needs are the demands on the number of shards: those that the plan is made of, and
// what the whole life of all messages at the peak would ask for.
func Needs(in Inputs, text Text) (planned []Need, wholePeak Need) {
	store := Least(Limits(in, in.store()))
	life := Least(Limits(in, in.life()))
	document := Least(Limits(in, text.work()))
	disk := in.NodeDisk.Value * in.NodeDiskUse.Value
	average := in.TotalRows.Value / (in.LiveDays.Value * 86400)
	row := in.TotalRows.Value * in.rowDisk(text)
	need := func(why string, demand float64, by Limit) Need {
		return Need{why, rate(by.Rate) + " (" + by.Resource + ")", shards(demand, by.Rate)}
	}
	const life3 = "stored, retried once and archived, without the catalogue"
	planned = []Need{
		need("storing "+in.PeakRate.text()+" at the peak", in.PeakRate.Value, store),
		need(fmt.Sprintf("%s, at the average of %s rows in %s days, %s", life3, number(in.TotalRows.Value), in.LiveDays.text(), rate(average)), average, life),
		need(fmt.Sprintf("the catalogue at that average, %s, %s", rate(average), text.Name), average, document),
		{
			fmt.Sprintf("%s live rows on disk with documents of %s, %s", number(in.TotalRows.Value), text.Name, size(row)),
			size(disk), shards(row, disk),
		},
	}
	return planned, need(life3+", all at the peak, "+in.PeakRate.text()+"; the archive's log is a bound from above", in.PeakRate.Value, life)
}

// Shards is the plan, for short texts: see ShardsOf.
func Shards(in Inputs) int { return ShardsOf(in, in.Short) }

// ShardsOf is what storing the peak and keeping the rows ask for, as a power of two,
// so that a shard can be split in halves. Retries and the archive wait for the burst
// to be over.
func ShardsOf(in Inputs, text Text) int {
	planned, _ := Needs(in, text)
	most := 0
	for _, n := range planned {
		most = max(most, n.Shards)
	}
	return int(math.Pow(2, math.Ceil(math.Log2(float64(most)))))
}

// PartitionsAShard spreads the keys of a shard: see the simulation of a burst.
const PartitionsAShard = 12

func clusterTable(in Inputs) Table {
	t := Table{Name: "cluster", Heading: []string{"demand", "one does", "needed, times 1.5"}}
	row := func(cells ...string) { t.Rows = append(t.Rows, cells) }
	shown := map[string]bool{}
	need := func(n Need) {
		if !shown[n.Why] {
			row("shards: "+n.Why, n.Each, number(float64(n.Shards)))
		}
		shown[n.Why] = true
	}
	for _, text := range in.texts() {
		planned, _ := Needs(in, text)
		for _, n := range planned {
			need(n)
		}
	}
	_, whole := Needs(in, in.Short)
	need(whole)
	s := float64(Shards(in))
	peak := in.PeakRate.Value
	row("**shards, planned, "+in.Short.Name+"**", "a power of two, without everything at the peak", fmt.Sprintf("**%.0f**", s))
	row("shards, if all were "+in.Random.Name, "the same", number(float64(ShardsOf(in, in.Random))))
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
