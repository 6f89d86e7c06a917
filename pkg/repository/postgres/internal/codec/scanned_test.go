package codec

import (
	"bytes"
	"database/sql"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// TestCellsReadWhatDatabaseSQLDoes scans every kind of value that the driver may return into each cell, and compares
// the result with that of the database/sql type that the cell replaces.
func TestCellsReadWhatDatabaseSQLDoes(t *testing.T) {
	t.Parallel()
	id := uuid.New()
	sources := []any{
		nil, "", "text", "12", "true", id.String(),
		[]byte{},
		[]byte("bytes"), []byte(id.String()), id[:], []byte("no id, though as long as one is here"),
		int64(0), int64(-7), int64(math.MaxInt32), int64(math.MaxInt32 + 1), int64(math.MinInt64), true, false, time.Unix(1, 2).UTC(), 1.5,
	}
	for _, src := range sources {
		for _, field := range []sql.Scanner{ // each field has an old value, which the scan must overwrite
			&sql.NullString{String: "old", Valid: true}, &sql.NullInt32{Int32: 9, Valid: true}, &sql.NullInt64{Int64: 9, Valid: true},
			&sql.NullBool{Bool: true, Valid: true}, &sql.NullTime{Time: time.Unix(9, 9), Valid: true}, &uuid.NullUUID{UUID: uuid.New(), Valid: true},
		} {
			want := reflect.New(reflect.TypeOf(field).Elem()).Interface().(sql.Scanner)
			err, wantErr := new(ScannedRow).cell(field).(sql.Scanner).Scan(src), want.Scan(src)
			check.True(t, (err == nil) == (wantErr == nil), "%T of %T %v: error %v, want %v", field, src, src, err, wantErr)
			check.True(t, wantErr != nil || reflect.DeepEqual(field, want), "%T of %T %v = %v, want %v", field, src, src, field, want)
		}
		old := int32(9)
		number, want := &old, sql.Null[int32]{}
		err, wantErr := numberCell[int32]{&number}.Scan(src), want.Scan(src)
		check.True(t, (err == nil) == (wantErr == nil), "number of %T %v: error %v, want %v", src, src, err, wantErr)
		check.True(t, wantErr != nil || (number != nil) == want.Valid && (!want.Valid || *number == want.V),
			"number of %T %v = %v, want %v", src, src, number, want)
	}
}

// TestScannedBytesStay: the bytes of a scanned row stay valid when the driver reuses its buffer for the next row.
func TestScannedBytesStay(t *testing.T) {
	t.Parallel()
	r := new(ScannedRow)
	for _, n := range []int{0, 1, 100, collected, collected + 1} {
		key, value := []byte("key"), bytes.Repeat([]byte("v"), n)
		r.bytes, r.parts = r.bytes[:0], r.parts[:0]
		for _, one := range []struct {
			to  *[]byte
			src any
		}{{&r.Key, key}, {&r.Headers, nil}, {&r.Value, value}, {&r.Payload, "text"}} {
			check.NoError(t, (bytesCell{r, one.to}).Scan(one.src))
		}
		r.own()
		clear(key)
		clear(value)
		clear(r.bytes)
		if want := bytes.Repeat([]byte("v"), n); string(r.Key) != "key" || r.Headers != nil || r.Value == nil || !bytes.Equal(r.Value, want) || string(r.Payload) != "text" {
			t.Errorf("row = %q, %v, %d bytes, %q, want what was read", r.Key, r.Headers, len(r.Value), r.Payload)
		}
		check.True(t, cap(r.Key) == len(r.Key), "a key that may be appended to runs into the value")
	}
}

// TestHeadersAreReadAsBefore compares viewHeaders with an earlier implementation, which copied every key and value, for
// valid and for damaged headers.
func TestHeadersAreReadAsBefore(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(9, 10)) //nolint:gosec // no secrets
	for range 20_000 {
		var headers []entity.Header
		for range random.IntN(6) {
			h := entity.Header{Key: string(make([]byte, random.IntN(200)))}
			if random.IntN(4) > 0 {
				h.Value = bytes.Repeat([]byte{byte(random.IntN(256))}, random.IntN(50))
			}
			headers = append(headers, h)
		}
		packed := PackHeaders(headers)
		switch random.IntN(3) {
		case 0:
			packed[random.IntN(len(packed))] = byte(random.IntN(256))
		case 1:
			packed = packed[:random.IntN(len(packed)+1)]
		}
		got, err := viewHeaders(packed)
		want, wantErr := headersOneByOne(packed)
		check.Require(t, (err == nil) == (wantErr == nil) && reflect.DeepEqual(got, want),
			"headers of %x = %v, %v, want %v, %v", packed, got, err, want, wantErr)
	}
}

func headersOneByOne(packed []byte) ([]entity.Header, error) {
	if len(packed) == 0 {
		return nil, nil
	}
	n, read := binary.Uvarint(packed)
	if read <= 0 || n > uint64(len(packed)-read) {
		return nil, errHeaders
	}
	rest := packed[read:]
	var headers []entity.Header
	for range n {
		var h entity.Header
		length, read := binary.Uvarint(rest)
		if read <= 0 || length > uint64(len(rest)-read) {
			return nil, errHeaders
		}
		h.Key, rest = string(rest[read:read+int(length)]), rest[read+int(length):] //nolint:gosec // not more than there are bytes
		if length, read = binary.Uvarint(rest); read <= 0 || length > uint64(len(rest)-read)+1 {
			return nil, errHeaders
		}
		rest = rest[read:]
		if length > 0 {
			h.Value = append([]byte{}, rest[:length-1]...)
			rest = rest[length-1:]
		}
		headers = append(headers, h)
	}
	return headers, nil
}
