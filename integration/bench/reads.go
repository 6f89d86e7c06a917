package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	askWarm   = 20 // number of first requests to a new API whose times do not count
	pageSize  = 50
	deepPages = 100 // the measured page begins where page number deepPages, of deepSize messages, begins
	deepSize  = 1000
	manyIDs   = 1000
	maxAnswer = 1000 // the 99th percentile of a search must be below it, in ms
)

// ask sends requests one at a time over one connection, and returns p50 and p99. In the first answer, the list
// "messages" must have at least as many members as the parameter least says.
func (s *side) ask(ctx context.Context, p program, name string, least int, paths ...string) []figure {
	return p.ask(ctx, askWarm, s.opts.requests, name, least, paths...)
}

// ask is like the method of side; the first answers, of the number warm, do not count.
func (p program) ask(ctx context.Context, warm, requests int, name string, least int, paths ...string) []figure {
	var times []time.Duration
	work := timed(func() int {
		for n := range warm + requests {
			start := time.Now()
			body := must(p.get(ctx, paths[n%len(paths)]))
			took := time.Since(start)
			if n == 0 && least > 0 {
				var answer struct{ Messages []json.RawMessage }
				check(json.Unmarshal(body, &answer))
				expect("answers that "+name+" lacks", int64(max(least-len(answer.Messages), 0)), 0)
			}
			if n >= warm {
				times = append(times, took)
			}
		}
		return requests
	})
	return []figure{
		work.figure(name+", p50", "ms", milliseconds(quantile(times, 0.5))),
		work.figure(name+", p99", "ms", milliseconds(quantile(times, 0.99))),
	}
}

func (s *side) askSearch(ctx context.Context, p program, name string, least int, words string) []figure {
	figures := s.ask(ctx, p, name, least, fmt.Sprintf("/api/v1/messages?limit=%d&q=%s", pageSize, url.QueryEscape(words)))
	figures[1] = figures[1].limit(maxAnswer)
	return figures
}

// quietTopic returns the n-th original topic of the part named search, to which no flood of records is written.
func (s *side) quietTopic(n int) string { return fmt.Sprintf("%squiet%02d.events.v1", s.flood, n) }

// search fills a table, lets the program index it, and measures searches.
func search(ctx context.Context, s *side) (figures []figure) {
	n := s.opts.count(s.opts.documents)
	s.flood, s.flooded = s.createFlood(ctx) // the part mixed also uses this table, and writes records to these topics
	d := s.database(ctx, "search", s.flood)
	s.documents = d
	d.fill(ctx, n, s.opts.days, 0, s.flood+"quiet",
		`CASE WHEN n % 10 < 2 THEN 'PENDING' WHEN n % 10 < 8 THEN 'RESOLVED' ELSE 'DEAD' END`, 6)
	s.with(ctx, "api", d, func(api program) {
		work := timed(func() int {
			api.awaitIndexed(ctx)
			return n
		})
		d.settle(ctx)
		figures = slices.Concat([]figure{work.rate("messages indexed, of 300 bytes")},
			s.askSearch(ctx, api, "a search of a rare word", 1, fmt.Sprintf("charge-%07d", n/2)),
			s.askSearch(ctx, api, "a search of two words, one rare", 1, fmt.Sprintf("charged charge-%07d", n/3)),
			s.askSearch(ctx, api, "a search of a common word", pageSize, "charged"),
			s.askSearch(ctx, api, "a search of a word that is nowhere", 0, "zyxwvutsrq"))
	}, noRedrives)
	return figures
}

// reads measures the pages that operators read most.
func reads(ctx context.Context, s *side) (figures []figure) {
	s.with(ctx, "api", s.documents, func(api program) {
		figures = slices.Concat(
			s.ask(ctx, api, "page 1 of a topic", pageSize, fmt.Sprintf("/api/v1/dlq/%s?page_size=%d", s.quietTopic(1), pageSize)),
			s.ask(ctx, api, "page 1 of all messages", pageSize, fmt.Sprintf("/api/v1/messages?limit=%d", pageSize)),
			s.ask(ctx, api, "a deep page by its cursor", 1, api.deepPage(ctx)),
			s.ask(ctx, api, "a message by its id", 0, s.documents.messagePaths(ctx)...))
		figures = append(figures, api.timed(func() int { return 0 }).resident("reads, memory of the API"))
	}, noRedrives)
	return figures
}

// deepPage reads pages from the beginning of the list of all messages, and returns the path of a page that begins where
// the last of them begins.
func (p program) deepPage(ctx context.Context) (path string) {
	cursor := ""
	for range deepPages {
		path = fmt.Sprintf("/api/v1/messages?limit=%d%s", pageSize, cursor)
		var page struct {
			NextCursor string `json:"next_cursor"`
		}
		p.call(ctx, http.MethodGet, fmt.Sprintf("/api/v1/messages?limit=%d%s", deepSize, cursor), &page)
		if page.NextCursor == "" { // the table has fewer pages than deepPages
			break
		}
		cursor = "&cursor=" + url.QueryEscape(page.NextCursor)
	}
	return path
}

const messagePath = "/api/v1/dlq/messages/"

// messagePaths returns the paths of messages from the whole table, in random order.
func (d *database) messagePaths(ctx context.Context) []string {
	paths := d.list(ctx, `SELECT '`+messagePath+`' || id FROM dlq.dlq_messages
		WHERE random() < 3.0 * $1::int / (SELECT count(*) FROM dlq.dlq_messages)::float8 ORDER BY random() LIMIT $1::int`, manyIDs)
	if len(paths) == 0 {
		check(errors.New("there are no messages to read"))
	}
	return paths
}

// export measures an export of the whole table.
func export(ctx context.Context, s *side) (figures []figure) {
	s.with(ctx, "api", s.documents, func(api program) {
		n := int(s.documents.number(ctx, countRows))
		work := api.timed(func() int { return api.export(ctx, n) })
		expect("different messages in the export", int64(work.n), int64(n))
		figures = append([]figure{work.rate("export")}, work.processors("export", "postgres", "api")...)
		figures = append(figures, work.resident("export, memory of the API"))
	}, noRedrives)
	return figures
}

// export exports n messages at most, and returns how many different messages the export contains.
func (p program) export(ctx context.Context, n int) (different int) {
	res, err := p.open(ctx, http.MethodGet, fmt.Sprintf("/api/v1/export?limit=%d", n), nil)
	check(err)
	defer res.Body.Close()
	seen, lines := map[string]bool{}, bufio.NewScanner(res.Body)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		_, rest, ok := bytes.Cut(lines.Bytes(), []byte(`"id":"`))
		if !ok || len(rest) < 36 {
			check(fmt.Errorf("no message: %.100q", lines.Bytes()))
		}
		seen[string(rest[:36])] = true
	}
	check(lines.Err())
	return len(seen)
}

const (
	mixedCallers = 200
	mixedRate    = 200.0 // reads per second
	mixedWarm    = 5 * time.Second
	mixedQuiet   = 15 * time.Second
	mixedLoaded  = 30 * time.Second
	mixedGrace   = 5 * time.Second // how long to wait for the last answers after the last request was due

	maxSearch = 2000 // the 99th percentile of a search during a flood must be below it, in ms
	maxTimes  = 3    // the 99th percentile of other reads must be below this multiple of the one without a flood
)

// mixed measures searches and other reads through the API, first without a flood of records and then during one.
func mixed(ctx context.Context, s *side) (figures []figure) {
	mix := s.mix(s.documents.messagePaths(ctx))
	s.with(ctx, "ingester", s.documents, func(ingester program) {
		s.with(ctx, "api", s.documents, func(api program) {
			api.steadily(ctx, mix, mixedWarm)
			s.documents.settle(ctx)
			quiet := api.steadily(ctx, mix, mixedQuiet)
			flood := s.kafka.startFlood(ctx, s.flooded)
			defer flood.stop()
			api.steadily(ctx, mix, mixedWarm)
			before := ingester.stored(ctx)
			loaded := api.steadily(ctx, mix, mixedLoaded)
			stored := ingester.stored(ctx) - before
			check(flood.stop())
			if failed := errors.Join(quiet.first, loaded.first); failed != nil {
				s.say("reads failed: %v", failed)
			}
			figures = append(mixedFigures(quiet, loaded),
				loaded.figure("mixed reads, stored meanwhile", "/s", float64(stored)/loaded.took.Seconds()).limit(0.99*floodRate),
				loaded.resident("mixed reads, memory of the API"))
		}, noRedrives)
	})
	return figures
}

func mixedFigures(quiet, loaded answers) (figures []figure) {
	for i, name := range []string{"searches", "other reads"} {
		for _, q := range []float64{0.5, 0.99} {
			was, is := milliseconds(quantile(quiet.times[i], q)), milliseconds(quantile(loaded.times[i], q))
			f := loaded.figure(fmt.Sprintf("%s with 2,000 records/s, p%g", name, 100*q), "ms", is).comparedWith("quiet", was)
			if q > 0.5 {
				f = f.limit([]float64{maxSearch, maxTimes * was}[i])
			}
			figures = append(figures, quiet.figure(fmt.Sprintf("%s, quiet, p%g", name, 100*q), "ms", was), f)
		}
	}
	return append(figures, loaded.figure("mixed reads without a good answer", "reads", float64(quiet.failed+loaded.failed)).limit(1))
}

// mix returns the n-th request of a sequence that is the same in every run. Of 100 requests, there are on average: 30
// for a message, 20 for page 1 of a quiet topic, 20 for page 1 of a topic that gets records, 10 for a list by topic and
// status, 10 searches of common words or a rare one, 5 for topics, 5 for error groups.
func (s *side) mix(messages []string) func(n int) (path string, search bool) {
	return func(n int) (string, bool) {
		random := rand.New(rand.NewPCG(uint64(n), 7))
		quiet := s.quietTopic(random.IntN(fillTopics))
		switch kind := random.IntN(100); {
		case kind < 30:
			return messages[random.IntN(len(messages))], false
		case kind < 50:
			return fmt.Sprintf("/api/v1/dlq/%s?page_size=20", quiet), false
		case kind < 70:
			return fmt.Sprintf("/api/v1/dlq/%s?page_size=20", originalTopic(s.flooded[random.IntN(len(s.flooded))])), false
		case kind < 80:
			return "/api/v1/messages?limit=20&status=PENDING&topic=" + quiet, false
		case kind < 90:
			return "/api/v1/messages?limit=20&q=" + []string{"order+charged", "charge-0000123"}[random.IntN(2)], true
		case kind < 95:
			return "/api/v1/topics", false
		}
		return "/api/v1/groups?limit=20", false
	}
}

// answers holds the results of reads at a steady rate.
type answers struct {
	section
	times  [2][]time.Duration // [0]: times of searches, [1]: times of other reads; the time of a request begins when the request was due
	failed int                // bad answers, and requests that were not sent in time for lack of a connection
	first  error
}

// steadily sends requests at mixedRate. A slow answer delays no other request while a connection is
// free; otherwise requests wait, and the wait counts as part of their time.
func (p program) steadily(ctx context.Context, mix func(int) (string, bool), d time.Duration) (a answers) {
	all := int(mixedRate * d.Seconds())
	start := time.Now()
	var next atomic.Int64
	var mu sync.Mutex
	ask := func(n int) {
		due := start.Add(time.Duration(float64(n) / mixedRate * float64(time.Second)))
		select {
		case <-time.After(time.Until(due)):
		case <-ctx.Done():
		}
		path, search := mix(n)
		body, err := p.get(ctx, path)
		took := time.Since(due)
		if id, single := strings.CutPrefix(path, messagePath); err == nil && single && !bytes.Contains(body, []byte(id)) {
			err = fmt.Errorf("no message %s in %.100s", id, body)
		}
		mu.Lock()
		defer mu.Unlock()
		kind := map[bool]int{true: 0, false: 1}[search]
		if err == nil {
			a.times[kind] = append(a.times[kind], took)
		} else if a.first == nil {
			a.first = err
		}
	}
	a.section = p.timed(func() int {
		var group sync.WaitGroup
		for range mixedCallers {
			group.Go(func() {
				for n := int(next.Add(1)) - 1; n < all && time.Since(start) < d+mixedGrace; n = int(next.Add(1)) - 1 {
					ask(n)
				}
			})
		}
		group.Wait()
		return all
	})
	check(context.Cause(ctx))
	a.failed = all - len(a.times[0]) - len(a.times[1])
	return a
}
