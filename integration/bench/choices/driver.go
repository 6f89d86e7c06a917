package main

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
)

// openPool connects as the product does. What a choice changes in statements or
// their arguments is changed on their way; changed counts how often that was.
func openPool(url string, c choice, changed *atomic.Int64) (*sqlx.DB, error) {
	connector, err := pq.NewConnector(url)
	if err != nil {
		return nil, fmt.Errorf("open a pool: %w", err)
	}
	pool := sqlx.NewDb(sql.OpenDB(&changer{connector, c, changed}), "postgres")
	pool.SetMaxOpenConns(c.writers)
	pool.SetMaxIdleConns(c.writers)
	return pool, nil
}

type changer struct {
	driver.Connector
	choice  choice
	changed *atomic.Int64
}

func (c *changer) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &changed{conn, c}, nil
}

// changed hides all that the driver's connection can beside preparing, so that
// every statement goes that way.
type changed struct {
	driver.Conn
	by *changer
}

func (c *changed) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	for _, r := range c.by.choice.rewrite {
		if r.part.MatchString(query) {
			query = r.part.ReplaceAllString(query, r.by)
			c.by.changed.Add(1)
		}
	}
	stmt, err := c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, query)
	if err != nil || !c.by.choice.text {
		return stmt, err
	}
	return &textual{stmt, c.by.changed}, nil
}

// textual sends arrays as text.
type textual struct {
	driver.Stmt
	changed *atomic.Int64
}

func (t *textual) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	for i, a := range args {
		raw, ok := a.Value.([]byte)
		if !ok {
			continue
		}
		text, err := arrayText(raw)
		if err != nil {
			return nil, err
		}
		args[i].Value = text
		t.changed.Add(1)
	}
	return t.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
}

// PostgreSQL's type numbers of the elements that are sent.
const (
	oidBool        = 16
	oidBytea       = 17
	oidInt8        = 20
	oidInt4        = 23
	oidText        = 25
	oidTimestamptz = 1184
	oidUUID        = 2950
)

// arrayText is an array of the binary form in the text form.
func arrayText(raw []byte) (string, error) {
	if len(raw) < 12 {
		return "", errors.New("an argument of bytes is no array")
	}
	oid := binary.BigEndian.Uint32(raw[8:])
	if binary.BigEndian.Uint32(raw) == 0 {
		return "{}", nil
	}
	n, rest := int(binary.BigEndian.Uint32(raw[12:])), raw[20:]
	var out strings.Builder
	out.Grow(2 * len(raw))
	out.WriteByte('{')
	for i := range n {
		if i > 0 {
			out.WriteByte(',')
		}
		size := int32(binary.BigEndian.Uint32(rest))
		rest = rest[4:]
		if size < 0 {
			out.WriteString("NULL")
			continue
		}
		if err := elementText(&out, oid, rest[:size]); err != nil {
			return "", err
		}
		rest = rest[size:]
	}
	out.WriteByte('}')
	return out.String(), nil
}

var escape = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

func elementText(out *strings.Builder, oid uint32, b []byte) error {
	switch oid {
	case oidBool:
		out.WriteString(strconv.FormatBool(bytes.Equal(b, []byte{1})))
	case oidBytea:
		out.WriteString(`"\\x`)
		out.WriteString(hex.EncodeToString(b))
		out.WriteByte('"')
	case oidInt4:
		out.WriteString(strconv.Itoa(int(int32(binary.BigEndian.Uint32(b)))))
	case oidInt8:
		out.WriteString(strconv.FormatInt(int64(binary.BigEndian.Uint64(b)), 10))
	case oidText:
		out.WriteByte('"')
		_, _ = escape.WriteString(out, string(b))
		out.WriteByte('"')
	case oidTimestamptz:
		at := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(binary.BigEndian.Uint64(b)) * time.Microsecond)
		out.WriteString(at.Format(`"2006-01-02 15:04:05.999999Z"`))
	case oidUUID:
		id, err := uuid.FromBytes(b)
		if err != nil {
			return err
		}
		out.WriteString(id.String())
	default:
		return fmt.Errorf("arrays of type %d are not known here", oid)
	}
	return nil
}
