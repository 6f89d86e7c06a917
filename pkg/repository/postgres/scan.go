package postgres

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

// maxPrepared is how many statements stay prepared. Those that have a page's size in
// their text could be very many, and each takes memory of every connection.
const maxPrepared = 160

// eachRow runs a prepared query and calls do for each row, which is good until do returns;
// its bytes may be kept. total, if not nil, gets the column of that name first. It uses no
// reflection for each row, which would cost more than reading it.
func (s *Store) eachRow(ctx context.Context, query string, args []any, total *int64, do func(*row) error) error {
	return s.withRows(ctx, query, args, func(rows *sql.Rows) error {
		return scanRows(rows, func(r *scannedRow) error {
			if total != nil {
				*total = r.total.Int64
			}
			return do(&r.row)
		})
	})
}

// scanRows calls do for each of rows, as eachRow does. It does not close them.
func scanRows(rows *sql.Rows, do func(*scannedRow) error) error {
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	r, err := scannedRowFor(columns)
	if err != nil {
		return err
	}
	defer r.done()
	for rows.Next() {
		if err := r.scan(rows); err != nil {
			return err
		}
		if err := do(r); err != nil {
			return err
		}
	}
	return rows.Err()
}

// rowFields are the numbers of a row's fields by their columns.
var rowFields = func() map[string]int {
	fields := map[string]int{}
	for i := range reflect.TypeFor[row]().NumField() {
		fields[reflect.TypeFor[row]().Field(i).Tag.Get("db")] = i
	}
	return fields
}()

// place is where the column of that name belongs; nil when there is none.
func (r *scannedRow) place(column string) any {
	if column == "total" {
		return r.cell(&r.total)
	}
	i, known := rowFields[column]
	if !known {
		return nil
	}
	return r.cell(reflect.ValueOf(&r.row).Elem().Field(i).Addr().Interface())
}

// cell reads into a field of the row, to which it is given a pointer.
func (r *scannedRow) cell(field any) any {
	switch f := field.(type) {
	case *sql.NullString:
		return cell[string]{&f.String, &f.Valid, f}
	case *sql.NullInt32:
		return (*int32Cell)(f)
	case *sql.NullInt64:
		return cell[int64]{&f.Int64, &f.Valid, f}
	case *sql.NullBool:
		return cell[bool]{&f.Bool, &f.Valid, f}
	case *sql.NullTime:
		return cell[time.Time]{&f.Time, &f.Valid, f}
	case *uuid.NullUUID:
		return (*idCell)(f)
	case **int32:
		return numberCell[int32]{f}
	case **int64:
		return numberCell[int64]{f}
	case *[]byte:
		return bytesCell{r, f}
	}
	return nil
}

// each runs a prepared query, reads each row into places, one for a column, and calls do.
// It is for statements of many rows a second: reflection costs more than reading.
func (s *Store) each(ctx context.Context, query string, args, places []any, do func() error) error {
	return s.withRows(ctx, query, args, func(rows *sql.Rows) error {
		for rows.Next() {
			if err := rows.Scan(places...); err != nil {
				return err
			}
			if err := do(); err != nil {
				return err
			}
		}
		return nil
	})
}

// withRows runs a prepared query, and asks its rows for their error and closes them
// when read is done with them.
func (s *Store) withRows(ctx context.Context, query string, args []any, read func(*sql.Rows) error) error {
	rows, err := s.query(ctx, query, args)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // Err tells
	if err := read(rows); err != nil {
		return err
	}
	return rows.Err()
}

// query keeps the statement prepared as long as there are not too many.
func (s *Store) query(ctx context.Context, query string, args []any) (*sql.Rows, error) {
	if known, full := s.statements.get(query); known != nil || !full { //nolint:sqlclosecheck // it stays prepared
		st, err := s.stmt(ctx, query) //nolint:sqlclosecheck // it is kept for the next time
		if err != nil {
			return nil, err
		}
		return st.QueryContext(ctx, args...) //nolint:sqlclosecheck // the caller closes the rows
	}
	st, err := s.db.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer func() { _ = st.Close() }()    // once its rows are closed
	return st.QueryContext(ctx, args...) //nolint:sqlclosecheck // the caller closes the rows
}

// Cells take values from the driver without database/sql's reflection, which makes text of
// a number to parse it. Other types are left to database/sql.

// cell is a field of a type that the driver gives.
type cell[T any] struct {
	value  *T
	valid  *bool
	others sql.Scanner // the field, which reads other types
}

// Scan implements sql.Scanner.
func (c cell[T]) Scan(src any) error {
	v, ok := src.(T)
	if !ok && src != nil {
		return c.others.Scan(src)
	}
	*c.value, *c.valid = v, ok
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

// bytesCell collects bytes for its row: the driver's own are valid for a moment, and one
// allocation for a row costs less than one for each column.
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
