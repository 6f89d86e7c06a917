package scaling

import "fmt"

// retentionTable is rate × days × bytes.
func retentionTable(in Inputs) Table {
	t := Table{Name: "retention", Heading: []string{"dead letters, on average", "a day", "30 days live: rows", "live, all copies, documents of " + in.Short.Name, "a year archived: rows", "in PostgreSQL, all copies", "as Parquet", "log a day, without catalogue, at most"}}
	for _, r := range []float64{100, 1_000, in.TotalRows.Value / (in.LiveDays.Value * 86400), 10_000, in.PeakRate.Value} {
		day := r * 86400
		live, year := day*in.LiveDays.Value, day*365
		t.Rows = append(t.Rows, []string{
			rate(r), rough(day), rough(live), size(round(live * in.rowDisk(in.Short) * in.Replicas.Value)),
			rough(year), size(round(year * in.ArchiveDisk.Value * in.Replicas.Value)), size(round(year * in.parquet())),
			size(round(day * in.life().log)),
		})
	}
	return t
}

// parquet is a row of it: values are not kept a second time as JSON, and there is
// no index.
func (in Inputs) parquet() float64 { return in.ParquetBytes.Value + in.Columns.Value }

// tiersTable compares the places that all rows could be kept in.
func tiersTable(in Inputs) Table {
	n := in.TotalRows.Value
	t := Table{Name: "tiers", Heading: []string{"place", "a row", "all rows", "copies", "$ a month", "files"}}
	row := func(name string, each, copies, price float64, files string) {
		all := n * each
		t.Rows = append(t.Rows, []string{
			name, size(each), size(round(all)), number(copies), rough(all * copies / 1e9 * price), files,
		})
	}
	for _, text := range in.texts() {
		row("live table with catalogue, "+text.Name, in.rowDisk(text), in.Replicas.Value, in.BlockPrice.Value, "–")
	}
	row("archive in PostgreSQL", in.ArchiveDisk.Value, in.Replicas.Value, in.BlockPrice.Value, "–")
	row("archive as Parquet", in.parquet(), 1, in.ObjectPrice.Value,
		fmt.Sprintf("%s of %s rows", rough(n*in.parquet()/in.ObjectBytes.Value), rough(in.ObjectBytes.Value/in.parquet())))
	return t
}

// catalogueTable is what searching takes.
func catalogueTable(in Inputs) Table {
	s := float64(Shards(in))
	n := in.TotalRows.Value
	t := Table{Name: "catalogue", Heading: []string{"question", "calculated", "how"}}
	row := func(cells ...string) { t.Rows = append(t.Rows, cells) }
	row("building it anew in bulk, one process, "+in.Short.Name, duration(n*in.Catalogue.Value*micro), "rows × document")
	row("the same, one process a shard", duration(n*in.Catalogue.Value*micro/s), "÷ "+number(s)+" shards")
	for _, text := range in.texts() {
		w := text.work()
		one := s * Least(Limits(in, w)).Rate
		peak := in.PeakRate.Value
		late := 3600 * max(0, peak-one)
		row(text.Name+": disk, all rows", size(n*text.Disk.Value), "rows × document")
		row("— storing takes of that text's processor, of its log", percent(in.store().processor/w.processor)+", "+percent(in.store().log/w.log), "storing ÷ document")
		row("— what the worker of each shard keeps up with", rate(one), "shards × "+Least(Limits(in, w)).Resource)
		row("— keeping up with the peak", fmt.Sprintf("%.0f processors, %s/s of log", peak*w.processor, size(peak*w.log)), "rate × document")
		row("— what an hour at the peak leaves for later", rough(late)+" messages", "rate − what they keep up with")
		row("— until they have caught up, if nothing new comes", duration(late/one), "÷ what they keep up with")
	}
	row("rare text, live rows of a shard", duration(in.CatalogueRare.Value/1000*n/s/5e6), "measured × rows of a shard ÷ 5,000,000, if it grows with them")
	row("the same in partitions of a day, one day asked for", duration(in.CatalogueRare.Value/1000*n/s/in.LiveDays.Value/5e6), "÷ "+in.LiveDays.text())
	row("export of all rows, one API", duration(n/in.ExportRate.Value), "rows ÷ rate")
	row("the same, an API for each shard", duration(n/in.ExportRate.Value/s), "÷ "+number(s)+" shards")
	return t
}

// recoveryTable is how long it takes until a shard is as it was.
func recoveryTable(in Inputs) Table {
	s := float64(Shards(in))
	rows := in.TotalRows.Value / s
	disk := rows * in.rowDisk(in.Short)
	store := Least(Limits(in, in.store()))
	day := in.PeakRate.Value / s * 86400
	replay := in.Replay.Value * in.ReplayUse.Value
	t := Table{Name: "recovery", Heading: []string{"what happened to a shard", "until it is well", "how"}}
	row := func(cells ...string) { t.Rows = append(t.Rows, cells) }
	row("its server was killed", duration(in.NodeMaxWAL.Value/replay), size(in.NodeMaxWAL.Value)+" of log ÷ replay")
	row("its standby was away for an hour of the peak", duration(3600*in.PeakRate.Value/s*in.StoreWAL.Value/replay), "log of that hour ÷ replay, if nothing new came")
	row("its standby is lost", duration(disk/in.NodeRead.Value), size(disk)+" ÷ disk; then the log of that time")
	row("a day at the peak is lost with both copies", duration(day/store.Rate), rough(day)+" records from Kafka ÷ "+rate(store.Rate)+"; what was done to them since is lost")
	row("an index is built again", duration(max(rows*in.IndexRow.Value*micro, disk/in.NodeRead.Value)), "rows × index, or reading the table, whichever is more")
	v := NewVacuum(in, rows)
	row(
		"a pass of vacuum, with "+percent(threshold)+" of the rows dead anywhere", duration(v.takes(threshold*rows)),
		fmt.Sprintf("all indexes, %s of the table's pages; see above", percent(v.visited(threshold*rows))),
	)
	return t
}
