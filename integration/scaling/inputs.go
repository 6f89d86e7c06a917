package scaling

// Figure is one number that the tables are made of.
type Figure struct {
	Name    string
	Value   float64
	Unit    string
	Source  string
	Assumed bool // nobody measured it
}

// Inputs are all of them. Nothing else in this package knows a figure.
type Inputs struct {
	Cores, IngestRate, RetryRate                   Figure
	IngestPostgres, IngestIngester, IngestKafka    Figure // processor µs a record
	RetryPostgres, RetryAPI, RetryKafka            Figure
	RecordBytes                                    Figure // value, key and headers
	StoreWAL, StoreDisk, RetryWAL, RetryDisk       Figure // bytes a row
	IndexBytes                                     Figure
	ArchivePostgres, ArchiveWAL, ArchiveDisk       Figure
	SweepPostgres                                  Figure // vacuum behind the archive
	VacuumRow, VacuumDead, IndexRow                Figure // processor µs
	Replay                                         Figure // bytes a second and core
	Catalogue, CatalogueDisk, CatalogueRare        Figure
	Worker, WorkerLog                              Figure
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

// Measured are the figures of 21 November 2026. Take new ones over when the pages
// that they come from are written anew, and print the tables again.
func Measured() Inputs {
	m := func(value float64, unit, source, name string) Figure { return Figure{name, value, unit, source, false} }
	a := func(value float64, unit, source, name string) Figure { return Figure{name, value, unit, source, true} }
	return Inputs{
		Cores:          m(2, "", bench, "processors of the measured machine, all parts together"),
		IngestRate:     m(18_066, "/s", bench, "ingest, 1 KB, sustained"),
		RetryRate:      m(7_120, "/s", bench, "retry-all of 100,000"),
		IngestPostgres: m(77, "µs", bench, "ingest: PostgreSQL's processor time a record"),
		IngestIngester: m(15, "µs", bench, "ingest: the ingester's"),
		IngestKafka:    m(6, "µs", bench, "ingest: Kafka's"),
		RetryPostgres:  m(202, "µs", bench, "retry: PostgreSQL's"),
		RetryAPI:       m(49, "µs", bench, "retry: the API's"),
		RetryKafka:     m(24, "µs", bench, "retry: Kafka's"),
		RecordBytes:    m(1_684, "B", bench, "a record in Kafka: value 1,072, headers 581, key 31"),

		StoreWAL:   m(4_494, "B", schema, "log of a stored row"),
		StoreDisk:  m(4_202, "B", schema, "disk of a stored row, with its indexes"),
		RetryWAL:   m(3_469, "B", schema, "log of a claim and its result"),
		RetryDisk:  m(1_462, "B", schema, "disk that a claim and its result add before vacuum"),
		IndexBytes: m(400, "B", schema, "of a stored row: in indexes, from what each index adds"),

		ArchivePostgres: m(58, "µs", byHand, "archive: PostgreSQL's processor time a row"),
		ArchiveWAL:      m(11_466, "B", byHand, "log of an archived row, right after a checkpoint"),
		ArchiveDisk:     m(3_550, "B", byHand, "disk of an archived row, with its indexes"),
		SweepPostgres:   m(7.2, "µs", byHand, "vacuum of a row that was archived"),
		VacuumRow:       m(0.39, "µs", byHand, "vacuum: a row of the table, dead or not"),
		VacuumDead:      m(1.4, "µs", byHand, "vacuum: a dead row, on top"),
		IndexRow:        m(0.61, "µs", byHand, "building an index of three columns, a row"),
		Replay:          m(417e6, "B/s", byHand, "replay of the log, one process, all of a core"),

		Catalogue:      m(72.6, "µs", reads, "catalogue: a document of 300 bytes, in bulk"),
		Worker:         m(780, "µs", byHand, "catalogue: a document of 1 KB by the worker, as messages come"),
		WorkerLog:      m(51e3, "B", byHand, "log of that document"),
		CatalogueDisk:  m(820, "B", reads, "catalogue: disk of a document of 300 bytes"),
		CatalogueRare:  m(193.5, "ms", reads, "a search for rare text in 5,000,000, half of all"),
		ExportRate:     m(51_413, "/s", reads, "export through one API"),
		ExportPostgres: m(5, "µs", reads, "export: PostgreSQL's processor time a record"),
		ExportAPI:      m(12, "µs", reads, "export: the API's"),
		ParquetBytes:   m(498, "B", byHand, "value, key and headers by column, compressed with deflate"),
		CounterShare:   m(0.08, "", "a profile of ingest", "share of the counting triggers in the statement that stores"),

		NodeCores:   a(32, "", guess, "processors of a PostgreSQL node"),
		NodeUse:     a(0.75, "", guess, "of which so much is given to the work"),
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
}

// All lists the figures in the order of the document.
func (in Inputs) All() []Figure {
	return []Figure{
		in.Cores, in.IngestRate, in.IngestPostgres, in.IngestIngester, in.IngestKafka,
		in.RetryRate, in.RetryPostgres, in.RetryAPI, in.RetryKafka, in.RecordBytes,
		in.StoreWAL, in.StoreDisk, in.IndexBytes, in.RetryWAL, in.RetryDisk,
		in.ArchivePostgres, in.ArchiveWAL, in.ArchiveDisk, in.SweepPostgres,
		in.VacuumRow, in.VacuumDead, in.IndexRow, in.Replay,
		in.Catalogue, in.CatalogueDisk, in.Worker, in.WorkerLog, in.CatalogueRare,
		in.ExportRate, in.ExportPostgres, in.ExportAPI, in.ParquetBytes, in.CounterShare,
		in.NodeCores, in.NodeUse, in.NodeWAL, in.NodeRead, in.NodeDisk, in.NodeDiskUse, in.NodeCommit, in.NodeMaxWAL,
		in.Replicas, in.Batch, in.Writers, in.LiveDays, in.BrokerDays, in.Columns, in.ObjectBytes, in.BlockPrice, in.ObjectPrice,
		in.PeakRate, in.TotalRows,
	}
}
