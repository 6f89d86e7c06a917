package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func answeredBy(api, sql int) compared {
	return compared{
		api: work{rate: rate{api, time.Second}},
		sql: work{rate: rate{sql, time.Second}},
	}
}

// comparedLists is a part just above every demand.
func comparedLists() *listsPart {
	p := &listsPart{rows: 1_110_000, depth: 1_000_000}
	for name, api := range map[string]int{firstOfTopic: 700, firstOfAll: 1050, byCursor: 700, oneByID: 700} {
		c := answeredBy(api, 1000)
		c.name = name
		p.answers = append(p.answers, c)
	}
	return p
}

// missed are the rows whose demand is not met.
func missed(lines []line) (names []string) {
	for _, l := range lines {
		if !l.reached {
			names = append(names, l.work)
		}
	}
	return names
}

func TestListLines(t *testing.T) {
	t.Parallel()
	p := comparedLists()
	if got := missed(p.lines()); len(p.lines()) != 5 || got != nil {
		t.Errorf("%d lines, missed %q, want 5 and none", len(p.lines()), got)
	}
	for i, c := range p.answers {
		if c.name == byCursor {
			p.answers[i].api.n, p.answers[i].sql.n = 699, 800
		}
	}
	if got := missed(p.lines()); len(got) != 1 || !strings.Contains(got[0], "at depth 1,000,000") {
		t.Errorf("deep page slower than 1.5 times: missed %q, want that alone", got)
	}
	for i := range p.answers {
		p.answers[i].api.n = 0
	}
	if got := missed(p.lines()); len(got) != 5 {
		t.Errorf("nothing measured: missed %q, want all", got)
	}
}

func TestCheckList(t *testing.T) {
	t.Parallel()
	one := fmt.Sprintf(`{"id": %q}`, strings.Repeat("x", leastBytes("messages")))
	two := []byte(`{"messages": [` + one + `, ` + one + `], "next": null}`)
	long := []byte(`{"messages": [` + one + `], "next": "` + strings.Repeat("x", leastBytes("messages")) + `"}`)
	for _, c := range []struct {
		n, want int
		body    string
		ok      bool
	}{
		{0, 2, string(two), true},
		{0, 3, string(two), false},
		{checkEach, 2, string(long), false},
		{checkEach - 1, 2, string(long), true}, // long enough, and not counted
		{checkEach - 1, 3, string(two), false}, // too short for three
		{0, 1, `{"topics": []}`, false},
		{0, 1, `not JSON`, false},
	} {
		if err := checkList(c.n, []byte(c.body), "messages", c.want); (err == nil) != c.ok {
			t.Errorf("checkList(%d, %s, %d) = %v, want ok %t", c.n, c.body, c.want, err, c.ok)
		}
	}
}
