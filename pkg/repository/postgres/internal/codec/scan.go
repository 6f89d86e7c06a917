package codec

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

// rowReader runs prepared queries.
type rowReader interface {
	ReadRows(ctx context.Context, query string, args []any, read func(*sql.Rows) error) error
}

// EachRow runs a prepared query and calls the function do for each row. do must not use the row after it has returned,
// but it may keep the row's bytes. If total is not nil, EachRow sets it to the row's column total before it calls do.
// EachRow reads rows without reflection, because reflection would cost more than reading them.
func EachRow(ctx context.Context, db rowReader, query string, args []any, total *int64, do func(*Row) error) error {
	return db.ReadRows(ctx, query, args, func(rows *sql.Rows) error {
		return ScanRows(rows, func(r *ScannedRow) error {
			if total != nil {
				*total = r.total.Int64
			}
			return do(&r.Row)
		})
	})
}

// ScanRows calls the function do for each row of the parameter rows, under the same rules as EachRow. It does not close
// rows.
func ScanRows(rows *sql.Rows, do func(*ScannedRow) error) error {
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

// rowFields contains, by the name of a column, the index of the field of Row for that column.
var rowFields = func() map[string]int {
	fields := map[string]int{}
	for i := range reflect.TypeFor[Row]().NumField() {
		fields[reflect.TypeFor[Row]().Field(i).Tag.Get("db")] = i
	}
	return fields
}()

// destination returns the scan destination for a column; nil when Row has no field for the column.
func (r *ScannedRow) destination(column string) any {
	if column == "total" {
		return r.cell(&r.total)
	}
	i, known := rowFields[column]
	if !known {
		return nil
	}
	return r.cell(reflect.ValueOf(&r.Row).Elem().Field(i).Addr().Interface())
}

// cell returns the scan destination for a field of a Row; the parameter is a pointer to the field.
func (r *ScannedRow) cell(field any) any {
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

// A cell is a scan destination that takes the value from the driver without database/sql's reflection, which would
// format a number as text and parse it again. A cell passes a value of an unexpected type on to the sql.Null type that
// it replaces.

// cell is the scan destination of a sql.NullString or a similar field, for which the driver returns values of the type
// T.
type cell[T any] struct {
	value  *T
	valid  *bool
	others sql.Scanner // the field itself, which scans values of other types than T
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
		if int64(int32(v)) != v { //nolint:gosec // this checks for overflow
			return (*sql.NullInt32)(c).Scan(src) // the number is too large for an int32, so this call returns an error
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

// numberCell is the scan destination of a field *int32 or *int64. It sets the field to nil for NULL, and to a pointer
// to a new variable for a number.
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

// bytesCell is the scan destination of bytes. It collects the bytes of all columns of a row in one buffer, because the
// driver's bytes are valid only until the next row is read, and one allocation for a row costs less than one for each
// column.
type bytesCell struct {
	row *ScannedRow
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
		return fmt.Errorf("cannot read bytes from %T", src)
	}
	return nil
}

// collected is the maximum length in bytes of a value that bytesCell copies to the buffer of the row. A longer value is
// copied to memory of its own, so that it is copied only once.
const collected = 32 << 10

// ScannedRow is a row, together with the state for scanning its columns.
type ScannedRow struct {
	Row
	total sql.NullInt64

	columns      []string // names of the columns for which destinations are set
	destinations []any
	bytes        []byte // collected bytes of the row's columns
	parts        []part
}

// part says which range of a row's collected bytes belongs to one of the columns.
type part struct {
	of       *[]byte
	from, to int
}

// scannedRows are kept for later queries, because finding the destinations of fifty columns takes as long as reading a
// row.
var scannedRows = sync.Pool{New: func() any { return new(ScannedRow) }}

// scannedRowFor returns a ScannedRow with a destination for each of the columns.
func scannedRowFor(columns []string) (*ScannedRow, error) {
	r := scannedRows.Get().(*ScannedRow) //nolint:forcetypeassert // the pool has no other type
	if slices.Equal(r.columns, columns) {
		return r, nil
	}
	r.columns, r.destinations = nil, slices.Grow(r.destinations[:0], len(columns))
	for _, name := range columns {
		destination := r.destination(name)
		if destination == nil {
			return nil, fmt.Errorf("a message has no field for column %s", name)
		}
		r.destinations = append(r.destinations, destination)
	}
	r.columns = columns
	return r, nil
}

// done returns the row to the pool. The caller must not use the row after that.
func (r *ScannedRow) done() {
	r.Row, r.total = Row{}, sql.NullInt64{}
	clear(r.parts)
	r.parts = r.parts[:0]
	scannedRows.Put(r)
}

// scan reads the next row of a query. The bytes of the row stay valid when the next one is read.
func (r *ScannedRow) scan(rows *sql.Rows) error {
	r.bytes, r.parts = r.bytes[:0], r.parts[:0]
	if err := rows.Scan(r.destinations...); err != nil {
		return err
	}
	r.own()
	return nil
}

// own copies the collected bytes to new memory, and sets the row's columns to parts of it.
func (r *ScannedRow) own() {
	if len(r.parts) == 0 {
		return
	}
	own := bytes.Clone(r.bytes)
	if own == nil { // an empty value must not become NULL
		own = []byte{}
	}
	for _, p := range r.parts {
		*p.of = own[p.from:p.to:p.to]
	}
}
