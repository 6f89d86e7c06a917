package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

const (
	defaultExport = 100_000
	maxExport     = 1_000_000

	formatNDJSON = "ndjson"
	formatCSV    = "csv"

	sourceArchive = "archive"

	// exportChunk is how much is written at once, in bytes.
	exportChunk = 64 << 10

	// Trailers: the number of messages, and whether these are all that match.
	exportMessages = "X-Export-Messages"
	exportComplete = "X-Export-Complete"

	// exportSearched is a header: the time up to which the search index was complete.
	exportSearched = "X-Export-Searched-Until"
)

type exportOrder struct {
	query  repository.ExportQuery // with a limit of one more than requested
	limit  int
	format string
	view   view
}

// exportMessages streams every match. Memory does not grow with the number of messages.
func (s *Server) exportMessages(w http.ResponseWriter, r *http.Request) error {
	order, err := s.exportOf(r)
	if err != nil {
		return err
	}
	searched, err := s.askSearched(r.Context(), order.query.Filter)
	if err != nil {
		return err
	}
	if err := searched.tooLate("filter"); err != nil {
		return err
	}
	out := &export{w: w, x: exchangeOf(r), server: s, order: order, searched: searched}
	if r.Method == http.MethodHead {
		out.begin()
		return nil
	}
	return out.run(r)
}

// run streams the messages that the store returns, and stops reading and writing when ExportTimeout is over.
func (e *export) run(r *http.Request) error {
	s := e.server
	until := time.Now().Add(s.cfg.ExportTimeout)
	e.x.pace.endAt(until)
	defer e.x.pace.endAt(time.Time{}) // an error may still be written after the timeout
	ctx, cancel := context.WithDeadline(r.Context(), until)
	defer cancel()
	// A slow client is stopped by the write deadline; a store that does not return the next message is stopped by a
	// timer.
	e.patience = time.AfterFunc(s.cfg.RequestTimeout, cancel)
	defer e.patience.Stop()
	e.timeout = s.cfg.RequestTimeout
	if e.buf = make([]byte, 0, exportChunk+exportChunk/2); e.order.format == formatCSV {
		e.buf = append(e.buf, csvHead...)
	}
	err := s.db.Export(ctx, e.order.query, e.message)
	complete := err == nil
	if complete || errors.Is(err, errExportLimit) {
		err = e.end(complete && e.searched.complete())
	}
	switch {
	case err == nil:
		return nil
	case r.Context().Err() == nil && !time.Now().Before(until):
		// Not the client's doing: it may still be connected, and slow.
		return fmt.Errorf("an export was cut off: it took longer than %s (export_timeout), after %d messages: %w",
			s.cfg.ExportTimeout, e.n, context.DeadlineExceeded)
	case ctx.Err() != nil && r.Context().Err() == nil:
		err = errors.Join(context.DeadlineExceeded, err)
	}
	return tooBroad(err)
}

func (s *Server) exportOf(r *http.Request) (exportOrder, error) {
	var p problems
	query := r.URL.Query()
	filter := filterOf(r, &p)
	format, err := wordParameter(query, "format", []string{formatNDJSON, formatCSV})
	p.note(err)
	source, err := wordParameter(query, "source", []string{"live", sourceArchive})
	p.note(err)
	limit, err := intParameter(query, "limit", defaultExport, maxExport)
	p.note(err)
	unmask, err := boolParameter(query, "unmask")
	p.note(err)
	if err := joined(p); err != nil {
		return exportOrder{}, err
	}
	if filter.Visible, err = s.searchable(r, filter, ""); err != nil {
		return exportOrder{}, err
	}
	order := exportOrder{limit: limit, format: format, query: repository.ExportQuery{
		Filter: filter, Archived: source == sourceArchive, Limit: limit + 1, MaxValue: maxListPayload,
	}}
	order.view, err = s.viewOf(r, unmask)
	order.view.limit, order.view.archived = maxListPayload, order.query.Archived
	order.view.oneLine = format != formatCSV
	return order, err
}

// errExportLimit ends an export that has reached its limit.
var errExportLimit = errors.New("export limit reached")

type export struct {
	w        http.ResponseWriter
	x        *exchange
	server   *Server
	order    exportOrder
	searched searchedUntil
	patience *time.Timer // ends the wait for the next message
	timeout  time.Duration
	begun    bool
	n        int
	buf      []byte
}

// message writes the next message. Before the first one the answer may still be an error.
func (e *export) message(m *entity.Message) error {
	if e.n == e.order.limit {
		return errExportLimit
	}
	e.patience.Reset(e.timeout)
	e.n++
	c := e.server.show(m, e.order.view)
	if e.order.format == formatCSV {
		e.buf = c.appendCSV(e.buf)
	} else {
		e.buf = append(c.appendJSON(e.buf), '\n')
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
	if at := e.searched.show(); at != nil {
		header.Set(exportSearched, *at)
	}
	header.Set("Trailer", exportMessages+", "+exportComplete)
	e.w.WriteHeader(http.StatusOK)
}

func (e *export) flush() error {
	e.begin()
	e.patience.Stop() // time that the client takes does not count for the store
	_, err := e.w.Write(e.buf)
	e.patience.Reset(e.timeout)
	e.buf = e.buf[:0]
	if err != nil {
		return errors.Join(errClientGone, err)
	}
	return nil
}

// end sends the remaining bytes, and the trailers that say whether the export is complete.
func (e *export) end(complete bool) error {
	e.begin()
	if _, err := e.w.Write(e.buf); err != nil {
		return errors.Join(errClientGone, err)
	}
	trailer := e.x.Header() // the answer's own, whatever wraps it
	trailer.Set(exportMessages, strconv.Itoa(e.n))
	trailer.Set(exportComplete, strconv.FormatBool(complete))
	return nil
}
