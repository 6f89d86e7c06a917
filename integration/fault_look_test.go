package integration_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// metric returns the sum of all series of a metric on the program's page /metrics; -1 when the program does not answer.
func (p *process) metric(name string) float64 {
	p.t.Helper()
	status, body := p.try(http.MethodGet, "/metrics", nil)
	if status != http.StatusOK {
		return -1
	}
	series := regexp.MustCompile(`(?m)^` + name + `(?:\{.*\})? (\S+)$`)
	sum := 0.0
	for _, found := range series.FindAllStringSubmatch(string(body), -1) {
		value, err := strconv.ParseFloat(found[1], 64)
		check.Require(p.t, err == nil, "%s: %v", found[0], err)
		sum += value
	}
	return sum
}

// ear reads the part of a program's log that the program writes after listen was called.
type ear struct {
	p    *process
	from int
}

// listen returns an ear for the part of the log that the program writes from now on.
func (p *process) listen() ear { return ear{p, len(p.logged())} }

func (p *process) logged() string {
	p.t.Helper()
	text, err := os.ReadFile(p.log)
	check.NoError(p.t, err)
	return string(text)
}

// says waits until a line of this part of the log contains all of the texts.
func (l ear) says(texts ...string) {
	l.p.t.Helper()
	eventually(l.p.t, fmt.Sprintf("%s logs %q", l.p.name, texts), func() bool { return l.said(texts...) > 0 })
}

// said returns how many lines of this part of the log contain all of the texts.
func (l ear) said(texts ...string) (lines int) {
	l.p.t.Helper()
	for line := range strings.Lines(l.p.logged()[l.from:]) {
		has := true
		for _, text := range texts {
			has = has && strings.Contains(line, text)
		}
		if has {
			lines++
		}
	}
	return lines
}

// asked is the result of one of many concurrent requests to a program. Status 0 means that there was no answer.
type asked struct {
	status     int
	retryAfter string
	hung       bool
}

// crowd sends n requests for a path at the same time, each on its own connection. Each request ends after the duration
// limit at the latest.
func (p *process) crowd(n int, path string, limit time.Duration) []asked {
	out := make([]asked, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { out[i] = p.ask(path, limit) })
	}
	all.Wait()
	return out
}

func (p *process) ask(path string, limit time.Duration) asked {
	ctx, cancel := context.WithTimeout(p.t.Context(), limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path, nil)
	if err != nil {
		p.t.Error(err)
		return asked{}
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return asked{hung: ctx.Err() != nil}
	}
	_ = res.Body.Close()
	return asked{status: res.StatusCode, retryAfter: res.Header.Get("Retry-After")}
}

// wantSentAway checks that every client got status 503 with the header Retry-After.
func wantSentAway(t *testing.T, answers []asked) {
	t.Helper()
	for _, a := range answers {
		if seconds, err := strconv.Atoi(a.retryAfter); a.status != http.StatusServiceUnavailable || err != nil || seconds < 1 {
			t.Fatalf("of %d clients one got %+v, want 503 with Retry-After for all", len(answers), a)
		}
	}
}

// wantServed checks that every client got status 200.
func wantServed(t *testing.T, answers []asked) {
	t.Helper()
	for _, a := range answers {
		if a.status != http.StatusOK {
			t.Fatalf("of %d clients one got %+v, want 200 for all", len(answers), a)
		}
	}
}

// wantOffsetsStored checks that neither the committed offsets of the ingester's consumer group nor the ingester's
// positions are beyond the stored rows. It reads the offsets before the rows, because the number of rows can only
// increase between the two reads. It waits until some partition has a committed offset above 0, so that there is
// something to compare.
func (l *letters) wantOffsetsStored() {
	l.t.Helper()
	var committed map[int]int64
	eventually(l.t, "the group has committed offsets of all partitions, some of them above 0", func() bool {
		committed = l.kafka.committed(l.prefix, l.source)
		some := false
		for _, offset := range committed {
			some = some || offset > 0
		}
		return some && len(committed) == partitions
	})
	for p, offset := range committed {
		stored := -1
		eventually(l.t, "PostgreSQL counts the messages of a partition", func() bool {
			stored = l.count(fmt.Sprintf("dlq_partition = %d AND dlq_offset < %d", p, max(offset, 0)))
			return stored >= 0
		})
		if int64(stored) < max(offset, 0) {
			l.t.Errorf("partition %d: offset %d is committed and %d records are stored, want the offset not ahead", p, offset, stored)
		}
	}
	var ahead int
	if err := l.db.Get(&ahead, `SELECT count(*) FROM dlq.ingest_positions p WHERE next_offset >
		(SELECT count(*) FROM dlq.dlq_messages m WHERE m.dlq_partition = p.partition AND m.dlq_offset < p.next_offset)`); err != nil || ahead > 0 {
		l.t.Errorf("the positions of %d partitions are ahead of the stored rows, %v, want none", ahead, err)
	}
}
