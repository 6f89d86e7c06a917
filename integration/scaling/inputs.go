package scaling

import (
	"errors"
	"slices"
	"strings"
)

// Figure is one number that the tables are made of.
type Figure struct {
	Name    string
	Value   float64
	Unit    string
	Source  string
	Assumed bool // nobody measured it
}

// Text is one kind of text that messages are searched by.
type Text struct {
	Name      string
	Processor Figure // µs of the worker's statement, as messages come
	Log, Disk Figure
}

// Inputs are all of them. Nothing else in this package knows a figure.
type Inputs struct {
	Cores, IngestRate, RetryRate                   Figure
	IngestPostgres, IngestIngester, IngestKafka    Figure // processor µs a record
	RetryPostgres, RetryAPI, RetryKafka            Figure
	IngestOthers, RetryOthers                      Figure // % of the processors that others took meanwhile
	RecordBytes                                    Figure // value, key and headers
	StoreWAL, StoreDisk, RetryWAL, RetryDisk       Figure // bytes a row
	IndexBytes, HeapBytes                          Figure
	ArchivePostgres, ArchiveWAL, ArchiveDisk       Figure
	SweepPostgres                                  Figure // vacuum behind the archive
	VacuumRow, VacuumDead, IndexRow                Figure // processor µs
	Replay, ReplayClock, ReplayUse                 Figure // bytes a second and core
	Short, Random                                  Text   // the ends of what texts are
	Catalogue, CatalogueRare                       Figure
	ExportRate, ExportPostgres, ExportAPI          Figure
	ParquetBytes                                   Figure
	CounterShare                                   Figure
	NodeCores, NodeUse, NodeWAL, NodeRead          Figure
	NodeDisk, NodeDiskUse, NodeCommit, NodeMaxWAL  Figure
	Batch, Writers, Columns                        Figure
	PeakRate, TotalRows, Replicas, BlockPrice      Figure
	ObjectPrice, ObjectBytes, LiveDays, BrokerDays Figure
}

const (
	bench  = "`docs/benchmarks.md`"
	reads  = "`docs/benchmarks-reads.md`"
	schema = "`docs/benchmarks-schema.md`"
	byHand = "measured once, below"
	guess  = "assumed"
	asked  = "the question"
	code   = "the programs' default"
)

// Measured are the figures: those of the pages as they are, and those of
// 21 November 2026 that were measured by hand. A page that does not say what is
// looked for is an error that names the row.
func Measured(pages Pages) (Inputs, error) {
	m := func(value float64, unit, source, name string) Figure { return Figure{name, value, unit, source, false} }
	a := func(value float64, unit, source, name string) Figure { return Figure{name, value, unit, source, true} }
	b := &page{name: "docs/benchmarks.md", text: pages.Bench}
	r := &page{name: "docs/benchmarks-reads.md", text: pages.Reads}
	sc := &page{name: "docs/benchmarks-schema.md", text: pages.Schema}
	const (
		ingest = "ingest 1,000,000 × 1 KB"
		retry  = "retry-all of 100,000 × 1 KB"
		export = "export of 1,000,000"
		asItIs = "**as it is**"
		others = `busy, (\d+) % with others' work`
	)
	retryDisk := sc.cell(asItIs, 7, plain)
	in := Inputs{
		Cores:          m(b.find(b.text, `(?m)^- (\d+) cores`, "its text"), "", bench, "processors of the measured machine, all parts together"),
		IngestRate:     m(b.cell(ingest, 1, perSecond), "/s", bench, "ingest, 1 KB, sustained"),
		RetryRate:      m(b.cell(retry, 1, perSecond), "/s", bench, "retry-all of 100,000"),
		IngestPostgres: m(b.cell(ingest, anyCell, took("PostgreSQL")), "µs", bench, "ingest: PostgreSQL's processor time a record"),
		IngestIngester: m(b.cell(ingest, anyCell, took("ingester")), "µs", bench, "ingest: the ingester's"),
		IngestKafka:    m(b.cell(ingest, anyCell, took("Kafka")), "µs", bench, "ingest: Kafka's"),
		RetryPostgres:  m(b.cell(retry, anyCell, took("PostgreSQL")), "µs", bench, "retry: PostgreSQL's"),
		RetryAPI:       m(b.cell(retry, anyCell, took("api")), "µs", bench, "retry: the API's"),
		RetryKafka:     m(b.cell(retry, anyCell, took("Kafka")), "µs", bench, "retry: Kafka's"),
		IngestOthers:   m(b.cell(ingest, anyCell, others), "%", bench, "ingest: of the processors others took"),
		RetryOthers:    m(b.cell(retry, anyCell, others), "%", bench, "retry: of the processors others took"),
		RecordBytes:    m(1_684, "B", bench, "a record in Kafka: value 1,072, headers 581, key 31"),

		StoreWAL:   m(sc.cell(asItIs, 3, plain), "B", schema, "log of a stored row"),
		StoreDisk:  m(sc.cell(asItIs, 4, plain), "B", schema, "disk of a stored row, with its indexes"),
		RetryWAL:   m(sc.cell(asItIs, 6, plain), "B", schema, "log of a claim and its result"),
		RetryDisk:  m(retryDisk, "B", schema, "disk that a claim and its result add before vacuum"),
		HeapBytes:  m(retryDisk/versions, "B", schema, "of a stored row: in its page, from what its new versions add"),
		IndexBytes: m(400, "B", schema, "of a stored row: in indexes, from what each index adds"),

		ArchivePostgres: m(58, "µs", byHand, "archive: PostgreSQL's processor time a row"),
		ArchiveWAL:      m(11_466, "B", byHand, "log of an archived row, right after a checkpoint: at most"),
		ArchiveDisk:     m(3_550, "B", byHand, "disk of an archived row, with its indexes"),
		SweepPostgres:   m(7.2, "µs", byHand, "vacuum of a row that was archived"),
		VacuumRow:       m(0.39, "µs", byHand, "vacuum: a row of the table, dead or not"),
		VacuumDead:      m(1.4, "µs", byHand, "vacuum: a dead row, on top"),
		IndexRow:        m(0.61, "µs", byHand, "building an index of three columns, a row"),
		Replay:          m(417e6, "B/s", byHand, "replay of the log of new rows from the cache, by its processor time"),
		ReplayClock:     m(97e6, "B/s", byHand, "the same by the clock of a busy machine"),

		Catalogue: m(72.6, "µs", reads, "catalogue: a document of 300 bytes, in bulk"),
		Short: Text{
			"texts of 300 bytes",
			m(105, "µs", byHand, "catalogue: a text of 300 bytes, as messages come"),
			m(7_900, "B", byHand, "log of that document"),
			m(820, "B", reads, "disk of that document, indexes built in bulk"),
		},
		Random: Text{
			"random text of 1 KB",
			m(780, "µs", byHand, "catalogue: random text of 1 KB by the worker, as messages come"),
			m(51e3, "B", byHand, "log of the document of random text"),
			m(4_530, "B", byHand, "disk of the document of random text"),
		},
		CatalogueRare:  m(r.cell("free text, rare", 2, `p50 ([\d,.]+) ms`), "ms", reads, "a search for rare text in 5,000,000, half of all"),
		ExportRate:     m(r.cell(export, 1, perSecond), "/s", reads, "export through one API"),
		ExportPostgres: m(r.cell(export, anyCell, took("PostgreSQL")), "µs", reads, "export: PostgreSQL's processor time a record"),
		ExportAPI:      m(r.cell(export, anyCell, took("api")), "µs", reads, "export: the API's"),
		ParquetBytes:   m(498, "B", byHand, "value, key and headers by column, compressed with deflate"),
		CounterShare:   m(0.08, "", "a profile of ingest", "share of the counting triggers in the statement that stores"),

		NodeCores:   a(32, "", guess, "processors of a PostgreSQL node"),
		NodeUse:     a(0.75, "", guess, "of which so much is given to the work"),
		ReplayUse:   a(1.0/3, "", guess, "of replay so much is planned with: old pages are read first"),
		NodeWAL:     a(500e6, "B/s", guess, "log that a node's disk takes, each commit waited for"),
		NodeRead:    a(1e9, "B/s", guess, "a node's disk, read in order"),
		NodeDisk:    a(8e12, "B", guess, "disk of a node"),
		NodeDiskUse: a(0.7, "", guess, "of which so much is used"),
		NodeCommit:  a(0.0025, "s", guess, "a commit and its round trip"),
		NodeMaxWAL:  a(16e9, "B", guess, "log between two checkpoints"),
		Columns:     a(150, "B", guess, "Parquet: all other columns of a row"),
		BlockPrice:  a(0.08, "$", guess, "a GB of block storage, a month"),
		ObjectPrice: a(0.023, "$", guess, "a GB of object storage, a month"),
		ObjectBytes: a(128e6, "B", guess, "size of a Parquet file"),
		Replicas:    a(2, "", guess, "copies of a shard: the primary and a standby"),
		LiveDays:    a(30, "", code, "days before a resolved message is archived"),
		BrokerDays:  a(2, "", guess, "days that dead-letter topics keep records"),
		Batch:       a(1_000, "", code, "rows of a statement that stores"),
		Writers:     a(4, "", code, "writers of an ingester"),
		PeakRate:    a(100_000, "/s", asked, "dead letters at the peak"),
		TotalRows:   a(10e9, "", asked, "rows"),
	}
	if missing := slices.Concat(b.missing, r.missing, sc.missing); len(missing) > 0 {
		return in, errors.New(strings.Join(missing, "\n"))
	}
	return in, nil
}

// All lists the figures in the order of the document.
func (in Inputs) All() []Figure {
	return []Figure{
		in.Cores, in.IngestRate, in.IngestPostgres, in.IngestIngester, in.IngestKafka,
		in.RetryRate, in.RetryPostgres, in.RetryAPI, in.RetryKafka, in.IngestOthers, in.RetryOthers, in.RecordBytes,
		in.StoreWAL, in.StoreDisk, in.HeapBytes, in.IndexBytes, in.RetryWAL, in.RetryDisk,
		in.ArchivePostgres, in.ArchiveWAL, in.ArchiveDisk, in.SweepPostgres,
		in.VacuumRow, in.VacuumDead, in.IndexRow, in.Replay, in.ReplayClock,
		in.Catalogue, in.Short.Processor, in.Short.Log, in.Short.Disk,
		in.Random.Processor, in.Random.Log, in.Random.Disk, in.CatalogueRare,
		in.ExportRate, in.ExportPostgres, in.ExportAPI, in.ParquetBytes, in.CounterShare,
		in.NodeCores, in.NodeUse, in.ReplayUse, in.NodeWAL, in.NodeRead, in.NodeDisk, in.NodeDiskUse, in.NodeCommit, in.NodeMaxWAL,
		in.Replicas, in.Batch, in.Writers, in.LiveDays, in.BrokerDays, in.Columns, in.ObjectBytes, in.BlockPrice, in.ObjectPrice,
		in.PeakRate, in.TotalRows,
	}
}
