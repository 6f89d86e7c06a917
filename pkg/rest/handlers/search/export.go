package search

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/request"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/unmask"
	"github.com/dlq-manager/dlq-manager/pkg/rest/wire"
)

const (
	defaultExport = 100_000
	maxExport     = 1_000_000

	formatNDJSON = "ndjson"
	formatCSV    = "csv"

	sourceArchive = "archive"

	// exportChunk is how many bytes are collected before they are written.
	exportChunk = 64 << 10

	// Names of the trailers of an export: the number of messages, and whether these are all messages that match.
	ExportMessages = "X-Export-Messages"
	ExportComplete = "X-Export-Complete"

	// ExportSearched is the name of the header that contains the time up to which the search index was complete.
	ExportSearched = "X-Export-Searched-Until"
)

type exportOrder struct {
	// The query asks for one message more than the requested limit, to find out whether more messages match.
	query  repository.ExportQuery
	limit  int
	format string
	view   wire.View
}

// Exports streams messages, live or archived.
type Exports struct {
	Database       ExportDatabase
	Show           wire.Messages
	Unmask         unmask.Rules
	Now            func() time.Time
	Timeout        time.Duration // time limit of the whole export
	MessageTimeout time.Duration // time limit of the store for each next message
}

// ExportDatabase reads all messages that match.
type ExportDatabase interface {
	Export(ctx context.Context, q repository.ExportQuery, yield func(*entity.Message) error) error
	request.Index
}

// Get streams the matches, up to the limit of the request. Memory does not grow with the number of messages.
func (h Exports) Get(w http.ResponseWriter, r *http.Request) error {
	order, err := h.read(r)
	if err != nil {
		return err
	}
	searched, err := request.QueryIndex(r.Context(), h.Database, h.Now, order.query.Filter)
	if err != nil {
		return err
	}
	if err := searched.TooLate("filter"); err != nil {
		return err
	}
	out := &export{from: h, w: w, order: order, searched: searched}
	if r.Method == http.MethodHead {
		out.begin()
		return nil
	}
	return out.run(r)
}

// run streams the messages that the store returns. It stops reading and writing when Timeout has passed.
func (e *export) run(r *http.Request) error {
	until := time.Now().Add(e.from.Timeout)
	endAt := request.InfoOf(r).EndAt
	endAt(until)
	defer endAt(time.Time{}) // removes the deadline, so that an error can be written after the timeout
	ctx, cancel := context.WithDeadline(r.Context(), until)
	defer cancel()
	// The write deadline stops a slow client. This timer stops a store that does not return the next message.
	e.waiting = time.AfterFunc(e.from.MessageTimeout, cancel)
	defer e.waiting.Stop()
	e.timeout = e.from.MessageTimeout
	if e.buf = make([]byte, 0, exportChunk+exportChunk/2); e.order.format == formatCSV {
		e.buf = append(e.buf, wire.CSVHead...)
	}
	err := e.from.Database.Export(ctx, e.order.query, e.message)
	complete := err == nil
	if complete || errors.Is(err, errExportLimit) {
		err = e.end(complete && e.searched.Complete())
	}
	switch {
	case err == nil:
		return nil
	case r.Context().Err() == nil && !time.Now().Before(until):
		// This error is not ErrClientGone: the client may still be connected, and only read too slowly.
		return fmt.Errorf("an export was cut off: it took longer than %s (export_timeout), after %d messages: %w",
			e.from.Timeout, e.n, context.DeadlineExceeded)
	case ctx.Err() != nil && r.Context().Err() == nil:
		err = errors.Join(context.DeadlineExceeded, err)
	}
	return request.TooBroad(err)
}

func (h Exports) read(r *http.Request) (exportOrder, error) {
	var p request.Problems
	query := r.URL.Query()
	filter := request.ReadFilter(query, &p)
	p.RefuseSlowWords("", filter)
	format, err := request.Word(query, "format", []string{formatNDJSON, formatCSV})
	p.Add(err)
	source, err := request.Word(query, "source", []string{"live", sourceArchive})
	p.Add(err)
	limit, err := request.Int(query, "limit", defaultExport, maxExport)
	p.Add(err)
	unmask, err := request.Bool(query, "unmask")
	p.Add(err)
	if err := p.Err(); err != nil {
		return exportOrder{}, err
	}
	if err = h.Unmask.Narrow(r, &filter); err != nil {
		return exportOrder{}, err
	}
	order := exportOrder{limit: limit, format: format, query: repository.ExportQuery{
		Filter: filter, Archived: source == sourceArchive, Limit: limit + 1, MaxValue: wire.MaxListPayload,
	}}
	order.view, err = h.Unmask.View(r, unmask)
	order.view.Limit, order.view.Archived = wire.MaxListPayload, order.query.Archived
	order.view.OneLine = format != formatCSV
	return order, err
}

// errExportLimit ends an export that has reached its limit.
var errExportLimit = errors.New("export limit reached")

type export struct {
	from     Exports
	w        http.ResponseWriter
	order    exportOrder
	searched request.SearchedUntil
	waiting  *time.Timer // ends the wait for the next message
	timeout  time.Duration
	begun    bool
	n        int
	buf      []byte
}

// message writes the next message of the export. Until the first bytes are sent, the answer may still become an error.
func (e *export) message(m *entity.Message) error {
	if e.n == e.order.limit {
		return errExportLimit
	}
	e.waiting.Reset(e.timeout)
	e.n++
	if e.order.format == formatCSV {
		e.buf = e.from.Show.AppendCSV(e.buf, m, e.order.view)
	} else {
		e.buf = append(e.from.Show.AppendJSON(e.buf, m, e.order.view), '\n')
	}
	if len(e.buf) < exportChunk {
		return nil
	}
	return e.flush()
}

func (e *export) begin() {
	if e.begun {
		return
	}
	e.begun = true
	contentType, name := "application/x-ndjson", "messages.ndjson"
	if e.order.format == formatCSV {
		contentType, name = "text/csv; charset=utf-8; header=present", "messages.csv"
	}
	header := e.w.Header()
	header.Set("Content-Type", contentType)
	header.Set("Content-Disposition", `attachment; filename="`+name+`"`)
	if at := e.searched.Show(); at != nil {
		header.Set(ExportSearched, *at)
	}
	header.Set("Trailer", ExportMessages+", "+ExportComplete)
	e.w.WriteHeader(http.StatusOK)
}

func (e *export) flush() error {
	e.begin()
	e.waiting.Stop() // the time in which the client reads must not count for the store
	_, err := e.w.Write(e.buf)
	e.waiting.Reset(e.timeout)
	e.buf = e.buf[:0]
	if err != nil {
		return errors.Join(respond.ErrClientGone, err)
	}
	return nil
}

// end sends the remaining bytes, and the trailers that say whether the export is complete.
func (e *export) end(complete bool) error {
	e.begin()
	if _, err := e.w.Write(e.buf); err != nil {
		return errors.Join(respond.ErrClientGone, err)
	}
	trailer := e.w.Header()
	trailer.Set(ExportMessages, strconv.Itoa(e.n))
	trailer.Set(ExportComplete, strconv.FormatBool(complete))
	return nil
}
