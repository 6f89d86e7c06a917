package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"

	"github.com/dlq-manager/dlq-manager/integration/programs"
)

const (
	readyTimeout = time.Minute
	stopTimeout  = 30 * time.Second // the programs promise to stop within 25 s
)

// program is a running server program.
type program struct{ *programs.Process }

// noRedrives disables the redrive worker of a program.
const noRedrives = "DLQ_REDRIVE_WORKERS=0"

// with runs a program of this commit on a database while the function do works. Then the program must stop with exit
// code 0. The parameter env overrides settings.
//
// Of the dead letters of share groups, the program reads only those of the benchmark's own groups. By default it would
// read those of all groups in the cluster. This setting is an environment variable because the programs of earlier
// commits, which do not know it, refuse it in the file.
func (s *side) with(ctx context.Context, name string, d *database, do func(program), env ...string) {
	own := "DLQ_KAFKA_SHARE_GROUP_TOPICS=" + sharedDeadLetterTopic(s.id+"-*")
	p := program{must(programs.Start(programs.Program{
		Path: filepath.Join(s.programs, name), Config: d.config, Env: append([]string{own}, env...), Dir: s.folder,
	}))}
	defer p.Kill()
	ready, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	check(p.Ready(ready))
	do(p)
	p.Signal(syscall.SIGTERM)
	select {
	case <-p.Done():
		if err := p.Err(); err != nil {
			check(fmt.Errorf("%s: %w: see %s", p.Name, err, p.Log))
		}
	case <-time.After(stopTimeout):
		check(fmt.Errorf("%s did not stop within %s", p.Name, stopTimeout))
	}
}

// alive ends the benchmark if the program has exited.
func (p program) alive() {
	select {
	case <-p.Done():
		check(fmt.Errorf("%s ended by itself: %w: see %s", p.Name, p.Err(), p.Log))
	default:
	}
}

// timed measures the function work, and the largest memory that the program has used since its start.
func (p program) timed(work func() (n int)) section {
	s := timed(work)
	s.memory = float64(must(must(procfs.NewProc(p.Pid())).NewStatus()).VmHWM) / 1e6
	return s
}

// clients is the HTTP client of all requests. It keeps one idle connection open for each concurrent caller of the part
// mixed.
var clients = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: mixedCallers, DisableCompression: true}}

// open sends a request, and returns an error unless the status is 200 or 202. The body is JSON, or nil.
func (p program) open(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, p.URL+path, body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := clients.Do(req)
	if err == nil && res.StatusCode != http.StatusOK && res.StatusCode != http.StatusAccepted {
		defer res.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(res.Body, 500))
		err = fmt.Errorf("%s %s: %s: %s", method, path, res.Status, text)
	}
	return res, err
}

func (p program) get(ctx context.Context, path string) ([]byte, error) {
	res, err := p.open(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	return io.ReadAll(res.Body)
}

// call sends a request and decodes its answer.
func (p program) call(ctx context.Context, method, path string, answer any) {
	res, err := p.open(ctx, method, path, nil)
	check(err)
	defer res.Body.Close()
	check(json.NewDecoder(res.Body).Decode(answer))
}

// stored returns how many records an ingester has stored since its start, according to its metrics, because metrics
// are cheap to read and the programs of every commit provide them.
func (p program) stored(ctx context.Context) int {
	return int(p.metric(ctx, "dlq_ingest_records_stored_total"))
}

// metric returns a metric of the program, added up over all of its labels.
func (p program) metric(ctx context.Context, name string) float64 {
	p.alive()
	res, err := p.open(ctx, http.MethodGet, "/metrics", nil)
	check(err)
	defer res.Body.Close()
	return sumMetric(res.Body, name)
}

// sumMetric adds up a metric over all of its labels.
func sumMetric(text io.Reader, name string) (sum float64) {
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), name)
		if ok && rest != "" && (rest[0] == ' ' || rest[0] == '{') {
			sum += must(strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64))
		}
	}
	check(lines.Err())
	return sum
}

// awaitIndexed waits until searches find everything that was stored before the call.
func (p program) awaitIndexed(ctx context.Context) {
	now := time.Now()
	await(ctx, 4*time.Hour, time.Second, "complete searches", func() bool {
		p.alive()
		var answer struct {
			SearchedUntil *time.Time `json:"searched_until"`
		}
		p.call(ctx, http.MethodGet, "/api/v1/messages?limit=1&q=zyxwvutsrq", &answer)
		return answer.SearchedUntil != nil && answer.SearchedUntil.After(now)
	})
}
