package postgres

import (
	"bytes"
	"database/sql"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

// What follows takes values from the driver as they come: database/sql finds the
// same by reflection, and makes text of a number to read that again. What the driver
// does not give of a type is left to the types of database/sql.

type textCell sql.NullString

// Scan implements sql.Scanner.
func (c *textCell) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*c = textCell{}
	case string:
		c.String, c.Valid = v, true
	default:
		return (*sql.NullString)(c).Scan(src)
	}
	return nil
}

type int32Cell sql.NullInt32

// Scan implements sql.Scanner.
func (c *int32Cell) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*c = int32Cell{}
	case int64:
		if int64(int32(v)) != v { //nolint:gosec // that is what is asked
			return (*sql.NullInt32)(c).Scan(src) // it knows how to complain
		}
		c.Int32, c.Valid = int32(v), true
	default:
		return (*sql.NullInt32)(c).Scan(src)
	}
	return nil
}

type int64Cell sql.NullInt64

// Scan implements sql.Scanner.
func (c *int64Cell) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*c = int64Cell{}
	case int64:
		c.Int64, c.Valid = v, true
	default:
		return (*sql.NullInt64)(c).Scan(src)
	}
	return nil
}

type boolCell sql.NullBool

// Scan implements sql.Scanner.
func (c *boolCell) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*c = boolCell{}
	case bool:
		c.Bool, c.Valid = v, true
	default:
		return (*sql.NullBool)(c).Scan(src)
	}
	return nil
}

type timeCell sql.NullTime

// Scan implements sql.Scanner.
func (c *timeCell) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*c = timeCell{}
	case time.Time:
		c.Time, c.Valid = v, true
	default:
		return (*sql.NullTime)(c).Scan(src)
	}
	return nil
}

type idCell uuid.NullUUID

// Scan implements sql.Scanner.
func (c *idCell) Scan(src any) (err error) {
	*c = idCell{}
	if v, ok := src.([]byte); ok && len(v) == len(uuid.Nil.String()) {
		c.UUID, err = uuid.ParseBytes(v)
		c.Valid = err == nil
		return err
	}
	return (*uuid.NullUUID)(c).Scan(src)
}

// numberCell is a number that may not be there, in a variable of its own.
type numberCell[T int32 | int64] struct{ to **T }

// Scan implements sql.Scanner.
func (c numberCell[T]) Scan(src any) error {
	var n sql.Null[T]
	if v, ok := src.(int64); ok && int64(T(v)) == v {
		n.V, n.Valid = T(v), true
	} else if err := n.Scan(src); err != nil {
		return err
	}
	if *c.to = nil; n.Valid {
		*c.to = &n.V
	}
	return nil
}

// bytesCell notes bytes in what its row has collected of them. The driver's own are
// good for a moment only, and one piece of memory for all bytes of a row costs less
// than one for each.
type bytesCell struct {
	row *scannedRow
	to  *[]byte
}

// Scan implements sql.Scanner.
func (c bytesCell) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*c.to = nil
	case string:
		*c.to = []byte(v)
	case []byte:
		if len(v) > collected {
			*c.to = bytes.Clone(v)
			return nil
		}
		from := len(c.row.bytes)
		c.row.bytes = append(c.row.bytes, v...)
		c.row.parts = append(c.row.parts, part{c.to, from, len(c.row.bytes)})
	default:
		return fmt.Errorf("bytes come as %T", src)
	}
	return nil
}

// collected is the longest value that is collected, in bytes: a large one is copied
// once, to where it stays.
const collected = 32 << 10

// scannedRow is a row as it is read from columns, one after the other.
type scannedRow struct {
	row
	total sql.NullInt64

	columns []string // for which places are
	places  []any
	bytes   []byte // of the row's parts
	parts   []part
}

// part is what of a row's bytes belongs to one of its columns.
type part struct {
	of       *[]byte
	from, to int
}

// scannedRows are kept for the next query: to find the places of fifty columns takes
// as long as to read a row.
var scannedRows = sync.Pool{New: func() any { return new(scannedRow) }}

// scannedRowFor returns a row that has a place for all columns.
func scannedRowFor(columns []string) (*scannedRow, error) {
	r := scannedRows.Get().(*scannedRow) //nolint:forcetypeassert // there is nothing else in it
	if slices.Equal(r.columns, columns) {
		return r, nil
	}
	r.columns, r.places = nil, slices.Grow(r.places[:0], len(columns))
	for _, name := range columns {
		place := r.place(name)
		if place == nil {
			return nil, fmt.Errorf("a message has no place for column %s", name)
		}
		r.places = append(r.places, place)
	}
	r.columns = columns
	return r, nil
}

// done gives the row back. Nothing of it may be used any more.
func (r *scannedRow) done() {
	r.row, r.total = row{}, sql.NullInt64{}
	clear(r.parts)
	r.parts = r.parts[:0]
	scannedRows.Put(r)
}

// scan reads the next row. What it holds of bytes may be kept.
func (r *scannedRow) scan(rows *sql.Rows) error {
	r.bytes, r.parts = r.bytes[:0], r.parts[:0]
	if err := rows.Scan(r.places...); err != nil {
		return err
	}
	r.own()
	return nil
}

// own gives the row's columns the bytes that were collected for them.
func (r *scannedRow) own() {
	if len(r.parts) == 0 {
		return
	}
	own := bytes.Clone(r.bytes)
	if own == nil { // what is empty is not null
		own = []byte{}
	}
	for _, p := range r.parts {
		*p.of = own[p.from:p.to:p.to]
	}
}
