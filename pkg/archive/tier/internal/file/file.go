// Package file writes and reads the Parquet files of the archive: rows sorted by id, in row groups of some megabytes,
// with a Bloom filter of the ids. The files can be read by any program that reads Parquet.
package file

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/google/uuid"
	"github.com/parquet-go/parquet-go"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// groupBytes is the size of the rows in memory, in bytes, after which a row group ends. A reader loads a row group as a
// whole.
const groupBytes = 4 << 20

// TailBytes is how many bytes of the end of a file are read first. In almost all files they include the whole
// description of the content.
const TailBytes = 256 << 10

// bitsPerID is the number of bits of the Bloom filter for each id. With 10 bits, the filter recognises 99 of 100 ids
// that a row group does not contain.
const bitsPerID = 10

// The names of the columns that readers use to select rows.
const (
	idColumn       = "id"
	lastListColumn = "dlq_topic" // id, the times and the topics are the first columns
)

// Writer makes a file in memory.
type Writer struct {
	buffer bytes.Buffer
	rows   *parquet.GenericWriter[repository.ArchivedRow]
	group  int64 // bytes of the rows of the present row group
	last   uuid.UUID
	any    bool
}

// NewWriter returns a Writer of an empty file.
func NewWriter() *Writer {
	w := &Writer{}
	w.rows = parquet.NewGenericWriter[repository.ArchivedRow](&w.buffer,
		parquet.Compression(&parquet.Zstd),
		parquet.BloomFilters(parquet.SplitBlockFilter(bitsPerID, idColumn)),
		parquet.SortingWriterConfig(parquet.SortingColumns(parquet.Ascending(idColumn))),
		// The lowest and highest value of these columns would only make the end of the file large.
		parquet.SkipPageBounds("value"), parquet.SkipPageBounds("key"), parquet.SkipPageBounds("payload"),
		parquet.SkipPageBounds("error_message"), parquet.SkipPageBounds("attempts"), parquet.SkipPageBounds("last_publish_error"),
		parquet.SkipPageBounds("headers", "list", "element", "key"), parquet.SkipPageBounds("headers", "list", "element", "value"),
		parquet.CreatedBy("dlq-manager", "", ""),
	)
	return w
}

// Add appends a row. Its id must be after those of all earlier rows.
func (w *Writer) Add(row *repository.ArchivedRow) error {
	if w.any && bytes.Compare(row.ID[:], w.last[:]) <= 0 {
		return fmt.Errorf("row %s is not after row %s", row.ID, w.last)
	}
	if w.group >= groupBytes {
		if err := w.rows.Flush(); err != nil {
			return fmt.Errorf("write a row group: %w", err)
		}
		w.group = 0
	}
	if _, err := w.rows.Write([]repository.ArchivedRow{*row}); err != nil {
		return fmt.Errorf("write row %s: %w", row.ID, err)
	}
	w.any, w.last = true, row.ID
	w.group += Size(row)
	return nil
}

// Finish returns the file. The Writer must not be used after that.
func (w *Writer) Finish() ([]byte, error) {
	if err := w.rows.Close(); err != nil {
		return nil, fmt.Errorf("write the end of the file: %w", err)
	}
	return w.buffer.Bytes(), nil
}

// Size returns about how many bytes a row takes in memory.
func Size(r *repository.ArchivedRow) int64 {
	size := 512 + len(r.Key) + len(r.Value) + len(r.Packed) + len(r.ErrorMessage) + len(r.Attempts)
	if r.Payload != nil {
		size += len(*r.Payload)
	}
	return int64(size)
}

// Source is where a file is read from. Prefetch loads a range that will be read, in one request.
type Source interface {
	io.ReaderAt
	Prefetch(offset, length int64) error
}

// File is a file that is open for reading.
type File struct {
	source Source
	file   *parquet.File
}

// Open reads the end of a file, which describes its content.
func Open(source Source, size int64) (f *File, err error) {
	defer recovered(&err)
	opened, err := parquet.OpenFile(source, size, parquet.SkipMagicBytes(true), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, fmt.Errorf("open file: %w", err)
	}
	return &File{source, opened}, nil
}

// recovered makes an error of a panic, because the library may panic when it reads a damaged file.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("damaged file: %v", p)
	}
}

// Messages returns the number of rows.
func (f *File) Messages() int64 { return f.file.NumRows() }

// Entry has the columns of a row by which rows are selected.
type Entry struct {
	ID            uuid.UUID         `parquet:"id,uuid"`
	CreatedAt     repository.Micros `parquet:"created_at,timestamp(microsecond)"`
	OriginalTopic string            `parquet:"original_topic,dict"`
	DLQTopic      string            `parquet:"dlq_topic,dict"`
}

// Entries returns the entries of all rows, in the order of the rows.
func (f *File) Entries() (entries []Entry, err error) {
	defer recovered(&err)
	entries = make([]Entry, 0, f.Messages())
	topics := map[string]string{} // equal names share their memory
	shared := func(s string) string {
		if known, ok := topics[s]; ok {
			return known
		}
		topics[s] = s
		return s
	}
	for i, group := range f.file.RowGroups() {
		if err := f.prefetch(i, lastListColumn); err != nil {
			return nil, err
		}
		err := each(group, func(e *Entry) bool {
			e.OriginalTopic, e.DLQTopic = shared(e.OriginalTopic), shared(e.DLQTopic)
			entries = append(entries, *e)
			return true
		})
		if err != nil {
			return nil, err
		}
	}
	return entries, nil
}

// Rows calls do for the rows that wanted selects, in the order of the rows, until do returns an error, which Rows
// returns. A nil wanted selects all rows.
func (f *File) Rows(wanted map[uuid.UUID]bool, do func(*repository.ArchivedRow) error) (err error) {
	defer recovered(&err)
	for i, group := range f.file.RowGroups() {
		few := 0
		if wanted != nil {
			if few = f.mayHave(i, wanted); few == 0 {
				continue
			}
		}
		if err := f.prefetch(i, ""); err != nil {
			return err
		}
		var refused error
		one := func(r *repository.ArchivedRow) bool {
			refused = do(r)
			return refused == nil
		}
		switch {
		case wanted == nil:
			err = each(group, one)
		case few > fewRows:
			err = many(group, wanted, one)
		default:
			err = some(group, wanted, one)
		}
		if refused != nil || err != nil {
			return errors.Join(refused, err)
		}
	}
	return nil
}

// mayHave counts the wanted ids that are in the range of ids of a row group, or all of them if the range is not known.
func (f *File) mayHave(group int, wanted map[uuid.UUID]bool) (n int) {
	for _, c := range f.file.Metadata().RowGroups[group].Columns {
		if len(c.MetaData.PathInSchema) != 1 || c.MetaData.PathInSchema[0] != idColumn {
			continue
		}
		low, high := c.MetaData.Statistics.MinValue, c.MetaData.Statistics.MaxValue
		for id := range wanted {
			if bytes.Compare(id[:], low) >= 0 && bytes.Compare(id[:], high) <= 0 {
				n++
			}
		}
		if len(low) > 0 {
			return n
		}
	}
	return len(wanted)
}

// prefetch loads the columns of a row group up to the column last, or all columns when no column has this name.
func (f *File) prefetch(group int, last string) error {
	var from, to int64 = -1, 0
	for _, c := range f.file.Metadata().RowGroups[group].Columns {
		m := c.MetaData
		begin := m.DataPageOffset
		if m.DictionaryPageOffset > 0 {
			begin = min(begin, m.DictionaryPageOffset)
		}
		if from < 0 || begin < from {
			from = begin
		}
		to = max(to, begin+m.TotalCompressedSize)
		if m.PathInSchema[0] == last {
			break
		}
	}
	return f.source.Prefetch(from, to-from)
}

// each reads of each row of a group the columns that T has, and calls do with them until do returns false.
func each[T any](group parquet.RowGroup, do func(*T) bool) error {
	reader := parquet.NewGenericRowGroupReader[T](group)
	defer func() { _ = reader.Close() }()
	var rows []T
	return steps(func() (int, error) {
		rows = make([]T, stepRows) // new memory for each step, because the rows are kept
		return reader.Read(rows)
	}, func(i int) (bool, error) { return do(&rows[i]), nil })
}

const stepRows = 64 // rows that are read together

// steps calls read until it returns io.EOF, and use for the index of each row that was read, until use returns false or
// an error.
func steps(read func() (int, error), use func(i int) (more bool, err error)) error {
	for {
		n, err := read()
		for i := range n {
			if more, err := use(i); err != nil || !more {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read rows: %w", err)
		}
		if n == 0 {
			return io.ErrNoProgress
		}
	}
}

// fewRows is the number of rows up to which it is faster to find each row (3 ms) than to read a whole row group (35 ms).
const fewRows = 8

var rowSchema = parquet.SchemaOf(repository.ArchivedRow{})

// many reads a whole row group, and makes only the wanted rows values of Go, until do returns false.
func many(group parquet.RowGroup, wanted map[uuid.UUID]bool, do func(*repository.ArchivedRow) bool) error {
	reader := parquet.NewRowGroupReader(group, rowSchema)
	defer func() { _ = reader.Close() }()
	rows := make([]parquet.Row, stepRows)
	return steps(func() (int, error) { return reader.ReadRows(rows) }, func(i int) (bool, error) {
		if !wanted[uuid.UUID(rows[i][0].ByteArray())] { // the first column is the id
			return true, nil
		}
		r := &repository.ArchivedRow{}
		if err := rowSchema.Reconstruct(r, rows[i]); err != nil {
			return false, fmt.Errorf("read a row: %w", err)
		}
		return do(r), nil
	})
}

// some calls do for the wanted rows of a group until do returns false. It finds their positions in the column of ids,
// and then reads the rows one by one.
func some(group parquet.RowGroup, wanted map[uuid.UUID]bool, do func(*repository.ArchivedRow) bool) error {
	var at int64
	var numbers []int64
	err := each(group, func(r *struct {
		ID uuid.UUID `parquet:"id,uuid"`
	},
	) bool {
		if wanted[r.ID] {
			numbers = append(numbers, at)
		}
		at++
		return true
	})
	if err != nil || len(numbers) == 0 {
		return err
	}
	reader := parquet.NewGenericRowGroupReader[repository.ArchivedRow](group)
	defer func() { _ = reader.Close() }()
	for _, n := range numbers {
		if err := reader.SeekToRow(n); err != nil {
			return fmt.Errorf("find row %d: %w", n, err)
		}
		rows := make([]repository.ArchivedRow, 1)
		if read, err := reader.Read(rows); read != 1 {
			return fmt.Errorf("read row %d: %w", n, errors.Join(err, io.ErrUnexpectedEOF))
		}
		if !do(&rows[0]) {
			return nil
		}
	}
	return nil
}
