package file

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/dlq-manager/dlq-manager/integration/stack"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// memory is a file in memory. It returns an error for bytes that were not prefetched.
type memory struct {
	content  []byte
	fetched  []bool
	requests int
}

func newMemory(content []byte) *memory {
	m := &memory{content: content, fetched: make([]bool, len(content))}
	tail := min(int64(len(content)), TailBytes)
	_ = m.Prefetch(int64(len(content))-tail, tail)
	return m
}

func (m *memory) Prefetch(offset, length int64) error {
	m.requests++
	for i := range length {
		m.fetched[offset+i] = true
	}
	return nil
}

func (m *memory) ReadAt(p []byte, offset int64) (int, error) {
	n := copy(p, m.content[offset:])
	if slices.Contains(m.fetched[offset:offset+int64(n)], false) {
		return 0, fmt.Errorf("%d bytes at %d of %d were not prefetched", len(p), offset, len(m.content))
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func written(rows []repository.ArchivedRow) ([]byte, error) {
	w := NewWriter()
	for i := range rows {
		if err := w.Add(&rows[i]); err != nil {
			return nil, err
		}
	}
	return w.Finish()
}

func read(f *File, wanted map[uuid.UUID]bool) (rows []repository.ArchivedRow, err error) {
	err = f.Rows(wanted, func(r *repository.ArchivedRow) error {
		rows = append(rows, *r)
		return nil
	})
	return rows, err
}

func sorted(rows []repository.ArchivedRow) []repository.ArchivedRow {
	slices.SortFunc(rows, func(a, b repository.ArchivedRow) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	return rows
}

// randomRow generates rows in which every field may have any value that it can have in the database.
func randomRow(t *rapid.T) repository.ArchivedRow {
	var r repository.ArchivedRow
	fill(t, reflect.ValueOf(&r).Elem())
	for r.ID == uuid.Nil {
		r.ID = uuid.UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
	}
	r.Packed, r.Version = nil, "" // the file contains neither Packed nor Version
	if r.Payload != nil {
		text := fmt.Sprintf(`{"text": %q}`, hex.EncodeToString([]byte(*r.Payload)))
		r.Payload = &text
	}
	return r
}

// The years 1 to 9999.
const firstMicros, lastMicros = -62135596800_000000, 253402300799_999999

func fill(t *rapid.T, v reflect.Value) {
	switch p := v.Addr().Interface().(type) {
	case *uuid.UUID:
		*p = uuid.UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "uuid"))
		return
	case *repository.Micros:
		*p = repository.Micros(rapid.Int64Range(firstMicros, lastMicros).Draw(t, "micros"))
		return
	case *repository.Bytes:
		if rapid.Bool().Draw(t, "set") {
			*p = rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(t, "bytes")
		}
		return
	case *string:
		*p = rapid.StringOf(rapid.Rune().Filter(func(r rune) bool { return r != 0 })).Draw(t, "text")
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i))
		}
	case reflect.Pointer:
		if rapid.Bool().Draw(t, "set") {
			v.Set(reflect.New(v.Type().Elem()))
			fill(t, v.Elem())
		}
	case reflect.Slice:
		if rapid.Bool().Draw(t, "set") {
			v.Set(reflect.MakeSlice(v.Type(), rapid.IntRange(0, 4).Draw(t, "length"), 4))
			for i := range v.Len() {
				fill(t, v.Index(i))
				if h, ok := v.Index(i).Addr().Interface().(*repository.ArchivedHeader); ok {
					h.Key = append(repository.Bytes{}, h.Key...)
					if h.Value != nil && *h.Value == nil {
						h.Value = nil
					}
				}
			}
		}
	case reflect.Int32:
		v.SetInt(int64(rapid.Int32().Draw(t, "number")))
	case reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, "number"))
	default:
		t.Fatalf("a field of the type %s", v.Type())
	}
}

// differs returns the first field in which two rows differ.
func differs(got, want *repository.ArchivedRow) string {
	a, b := reflect.ValueOf(got).Elem(), reflect.ValueOf(want).Elem()
	for i := range a.NumField() {
		if !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
			return fmt.Sprintf("%s is %#v, want %#v", a.Type().Field(i).Name, a.Field(i).Interface(), b.Field(i).Interface())
		}
	}
	return ""
}

func randomRows(t *rapid.T) []repository.ArchivedRow {
	byID := func(r repository.ArchivedRow) uuid.UUID { return r.ID }
	return sorted(rapid.SliceOfNDistinct(rapid.Custom(randomRow), 1, 100, byID).Draw(t, "rows"))
}

func TestFile_KeepsEveryField(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rows := randomRows(t)
		content, err := written(rows)
		if err != nil {
			t.Fatal(err)
		}
		f, err := Open(newMemory(content), int64(len(content)))
		if err != nil {
			t.Fatal(err)
		}
		got, err := read(f, nil)
		if err != nil || len(got) != len(rows) {
			t.Fatalf("read %d rows and %v, want %d", len(got), err, len(rows))
		}
		for i := range rows {
			if field := differs(&got[i], &rows[i]); field != "" {
				t.Fatalf("row %d of %d: %s", i, len(rows), field)
			}
		}
		entries, err := f.Entries()
		if err != nil || len(entries) != len(rows) || f.Messages() != int64(len(rows)) {
			t.Fatalf("%d entries and %v, want one for each of %d rows", len(entries), err, len(rows))
		}
		for i, r := range rows {
			if want := (Entry{r.ID, r.CreatedAt, r.OriginalTopic, r.DLQTopic}); entries[i] != want {
				t.Fatalf("entry %+v, want %+v", entries[i], want)
			}
		}
		some := map[uuid.UUID]bool{uuid.New(): true}
		for _, i := range rapid.SliceOfN(rapid.IntRange(0, len(rows)-1), 0, 3*fewRows).Draw(t, "some") {
			some[rows[i].ID] = true
		}
		wanted := slices.DeleteFunc(slices.Clone(rows), func(r repository.ArchivedRow) bool { return !some[r.ID] })
		if got, err := read(f, some); err != nil || !slices.EqualFunc(got, wanted, func(a, b repository.ArchivedRow) bool { return differs(&a, &b) == "" }) {
			t.Fatalf("read %d rows and %v, want %d", len(got), err, len(wanted))
		}
		one := rows[rapid.IntRange(0, len(rows)-1).Draw(t, "one")]
		if got, err := read(f, map[uuid.UUID]bool{one.ID: true}); err != nil || len(got) != 1 || differs(&got[0], &one) != "" {
			t.Fatalf("read %d rows and %v, want row %s", len(got), err, one.ID)
		}
	})
}

// TestFile_DuckDB checks the files with an independent reader.
func TestFile_DuckDB(t *testing.T) {
	t.Parallel()
	var rows []repository.ArchivedRow
	seed := 0
	rows = sorted(append(rapid.SliceOfN(rapid.Custom(randomRow), 60, 60).Example(seed), rapid.Custom(randomRow).Example(seed+1)))
	rows = slices.CompactFunc(rows, func(a, b repository.ArchivedRow) bool { return a.ID == b.ID })
	path := filepath.Join(t.TempDir(), "day.parquet")
	check.NoError(t, os.WriteFile(path, check.Must(written(rows))(t), 0o600))

	cmd := check.Must(stack.DuckDB(t.Context(), `SELECT * REPLACE (epoch_us(created_at) AS created_at, epoch_us(last_retry_at) AS last_retry_at),
		payload ->> '$.text' AS payload_text FROM '`+path+`' ORDER BY id`))(t)
	cmd.Stderr = os.Stderr
	lines := strings.Split(strings.TrimSpace(string(check.Must(cmd.Output())(t))), "\n")
	check.Require(t, len(lines) == len(rows), "DuckDB reads %d rows, want %d", len(lines), len(rows))
	for i, line := range lines {
		var got struct {
			ID        uuid.UUID `json:"id"`
			CreatedAt int64     `json:"created_at"`
			LastRetry *int64    `json:"last_retry_at"`
			Topic     string    `json:"original_topic"`
			Error     string    `json:"error_message"`
			Key       *string   `json:"key"`
			Value     *string   `json:"value"`
			Headers   []struct {
				Key   string  `json:"key"`
				Value *string `json:"value"`
			} `json:"headers"`
			Payload    *string   `json:"payload"`
			Text       *string   `json:"payload_text"`
			Group      uuid.UUID `json:"group_id"`
			Hash       *int64    `json:"record_hash"`
			Partition  *int32    `json:"original_partition"`
			Confidence *string   `json:"origin_confidence"`
			Attempts   string    `json:"attempts"`
		}
		check.NoError(t, json.Unmarshal([]byte(line), &got))
		r := rows[i]
		check.Same(t, got.ID, r.ID, "id")
		check.Same(t, got.CreatedAt, int64(r.CreatedAt), "created_at")
		check.Same(t, got.LastRetry, (*int64)(r.LastRetryAt), "last_retry_at")
		check.Same(t, []any{got.Topic, got.Error, got.Confidence, got.Attempts}, []any{r.OriginalTopic, r.ErrorMessage, r.OriginConfidence, r.Attempts}, "texts")
		check.Same(t, []any{got.Key, got.Value}, []any{inHex(r.Key), inHex(r.Value)}, "bytes")
		check.Same(t, []any{got.Group, got.Hash, got.Partition}, []any{r.GroupID, r.RecordHash, r.OriginalPartition}, "numbers")
		check.Same(t, got.Payload, r.Payload, "payload")
		check.Same(t, got.Text != nil, r.Payload != nil, "a path in payload is found")
		check.Same(t, got.Headers == nil, r.Headers == nil, "there are no headers")
		check.Require(t, len(got.Headers) == len(r.Headers), "%d headers, want %d", len(got.Headers), len(r.Headers))
		for j, h := range r.Headers {
			check.Same(t, []any{got.Headers[j].Key, got.Headers[j].Value}, []any{hex.EncodeToString(h.Key), inHexOf(h.Value)}, "header")
		}
	}
}

func inHex(b []byte) *string {
	if b == nil {
		return nil
	}
	text := hex.EncodeToString(b)
	return &text
}

func inHexOf(b *repository.Bytes) *string {
	if b == nil {
		return nil
	}
	return inHex(*b)
}

// manyRows returns rows with values of the given size.
func manyRows(n, size int) []repository.ArchivedRow {
	rows := make([]repository.ArchivedRow, n)
	for i := range rows {
		rows[i].ID = uuid.New()
		rows[i].OriginalTopic = fmt.Sprintf("topic-%d", i%3)
		rows[i].Value = bytes.Repeat([]byte{byte(i)}, size)
	}
	return sorted(rows)
}

func TestFile_ReadsOneRowGroupForOneRow(t *testing.T) {
	t.Parallel()
	rows := manyRows(300, 64<<10) // 19 MB: five row groups
	content := check.Must(written(rows))(t)
	source := newMemory(content)
	f := check.Must(Open(source, int64(len(content))))(t)
	groups := len(f.file.RowGroups())
	check.True(t, groups >= 4, "%d row groups, want at least 4", groups)
	source.requests = 0
	check.Len(t, check.Must(read(f, map[uuid.UUID]bool{rows[200].ID: true}))(t), 1, "rows")
	check.Same(t, source.requests, 1, "requests for one row")
	check.Len(t, check.Must(read(f, map[uuid.UUID]bool{uuid.New(): true}))(t), 0, "rows of an unknown id")
}

func TestFile_RefusesRowsOutOfOrder(t *testing.T) {
	t.Parallel()
	rows := manyRows(2, 1)
	for _, wrong := range [][]repository.ArchivedRow{{rows[1], rows[0]}, {rows[0], rows[0]}} {
		check.Says(t, check.Err(written(wrong)), "is not after", "rows out of order")
	}
}

// A file is compared with its checksum when it was written. When it is damaged later, reading it may give an error, but
// must not end the process.
func TestFile_ADamagedFileDoesNoHarm(t *testing.T) {
	t.Parallel()
	content := check.Must(written(manyRows(50, 100)))(t)
	open := func(damaged []byte) error {
		f, err := Open(newMemory(damaged), int64(len(damaged)))
		if err == nil {
			_, err = read(f, nil)
		}
		return err
	}
	failed := 0
	for at := 0; at < len(content); at += 11 {
		damaged := slices.Clone(content)
		damaged[at] ^= 0xff
		if open(damaged) != nil {
			failed++
		}
		check.True(t, open(content[:at]) != nil, "the first %d of %d bytes are read as a file", at, len(content))
	}
	check.True(t, failed > 0, "no damaged byte is found")
}
