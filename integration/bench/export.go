package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/google/uuid"
)

// wantExportMemory is the most that a program may have resident, in MB.
const wantExportMemory = 128

// exportPart lets the API export many messages, and looks at its memory.
type exportPart struct {
	*bench
	out     exported
	profile profile
}

func (p *exportPart) run(ctx context.Context) (err error) {
	if err := p.finishCatalogue(ctx, p.live); err != nil {
		return err
	}
	if err := p.live.settle(ctx); err != nil {
		return err
	}
	prog := p.program("api", p.live).with("DLQ_REDRIVE_WORKERS=0")
	noting, err := p.note(ctx, p.live, &prog)
	if err != nil {
		return err
	}
	api, err := prog.serve(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(p.export(ctx, api), api.stop()); err != nil {
		return err
	}
	p.profile, err = noting.done(ctx)
	return err
}

func (p *exportPart) profiles() []profile { return []profile{p.profile} }

func (p *exportPart) export(ctx context.Context, api *running) (err error) {
	n := p.opts.share(exportRows)
	p.say("exporting %d messages", n)
	p.out.work, err = timed(func() (int, error) {
		different, size, err := api.exportOnce(ctx, fmt.Sprintf("/api/v1/export?limit=%d", n))
		p.out.bytes = size
		return different, err
	})
	if err != nil {
		return err
	}
	if p.out.n != n {
		return fmt.Errorf("the run is worthless: %d different messages were exported, want %d", p.out.n, n)
	}
	p.out.memory, err = peakMemory(api.Pid())
	return err
}

// exportOnce reads an export in NDJSON and returns how many messages it has, of
// which none may be there twice, and its bytes.
func (r *running) exportOnce(ctx context.Context, path string) (different int, size int64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+path, nil)
	if err != nil {
		return 0, 0, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return 0, 0, fmt.Errorf("%s: %s", path, res.Status)
	}
	seen := map[uuid.UUID]bool{}
	size, err = eachLine(res.Body, func(line []byte) error {
		id, err := idOf(line)
		if err == nil && seen[id] {
			err = fmt.Errorf("the run is worthless: message %s was exported twice", id)
		}
		seen[id] = true
		return err
	})
	return len(seen), size, err
}

// eachLine calls do for every line, and wants the last to be ended as well. The
// line is valid until do returns.
func eachLine(from io.Reader, do func(line []byte) error) (size int64, err error) {
	in := bufio.NewReaderSize(from, 1<<20)
	for {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return size, nil
		}
		if err != nil {
			return size, fmt.Errorf("after %d bytes: %w", size, err)
		}
		size += int64(len(line))
		if err := do(line); err != nil {
			return size, err
		}
	}
}

// idOf is the id of a message in JSON, without reading all of that.
func idOf(line []byte) (uuid.UUID, error) {
	const key = `"id":"`
	at := bytes.Index(line, []byte(key))
	if at < 0 || len(line) < at+len(key)+36 {
		return uuid.Nil, fmt.Errorf("no message: %.100q", line)
	}
	return uuid.ParseBytes(line[at+len(key) : at+len(key)+36])
}

func (p *exportPart) lines() []line {
	mb := float64(p.out.memory) / 1e6
	return []line{{
		work: fmt.Sprintf("memory of the API, export of %s", thousands(p.out.n)), figure: fmt.Sprintf("%.0f MB", mb),
		beside: fmt.Sprintf("%s, %.0f MB/s", each(p.out.perSecond()), quotient(float64(p.out.bytes)/1e6, p.out.took.Seconds())),
		ratio:  noDemand, wanted: fmt.Sprintf("< %d MB", wantExportMemory),
		reached: mb > 0 && mb < wantExportMemory, limits: p.out.cpu.limits(p.out.n, "record", 1),
	}}
}

func (p *exportPart) method() string {
	return fmt.Sprintf("- **Export.** One request to an API that has just started, for %s messages as NDJSON (%s).\n"+
		"  Every line is read, and no id may come twice. `DLQ_REDRIVE_WORKERS=0`: it does nothing else meanwhile.\n", thousands(p.out.n), gigabytes(p.out.bytes))
}
