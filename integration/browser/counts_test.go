package browser

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
)

// counted is a number on a page, with the query sql, which counts the same things in the database. While messages are
// being stored, some numbers may lag: then the number must be at least the result of the query least. If least is
// empty, the result of sql is the lower bound too.
type counted struct{ page, selector, sql, least string }

const (
	ofStatus   = `SELECT count(*) FROM dlq.dlq_messages WHERE status = `
	ofTopic    = `SELECT count(*) FROM dlq.dlq_messages WHERE original_topic = 'counts.a' AND status = `
	ofGroup    = `SELECT count(*) FROM dlq.dlq_messages WHERE group_id IS NOT NULL AND status = `
	inGroup    = `SELECT count(*) FROM dlq.dlq_messages WHERE group_id IS NOT NULL`
	lately     = `SELECT count(*) FROM dlq.dlq_messages WHERE created_at >= date_trunc('minute', now()) - interval '15 minutes'`
	inAnHour   = `SELECT count(*) FROM dlq.dlq_messages WHERE created_at >= date_trunc('minute', now()) - interval '59 minutes'`
	documented = ` AND EXISTS (SELECT FROM dlq.message_documents d WHERE d.message_id = id AND d.created_at = dlq_messages.created_at)`
)

// everyCount lists the numbers on all pages, with the queries that count the same.
func everyCount(group string) []counted {
	list := []counted{
		{"/", "#all-pending .value", ofStatus + `'PENDING'`, ""},
		{"/", "#all-retrying .value", ofStatus + `'RETRYING'`, ""},
		{"/", "#all-dead .value", ofStatus + `'DEAD'`, ""},
		{"/", "#recent .value", lately, lately + documented},
		{"/", ".arrivals .key li", inAnHour, inAnHour + documented},
		{"/", ".causes tbody td:nth-child(3)", lately, lately + documented},
		{"/", ".causes tbody td:nth-child(7)", ofGroup + `'PENDING'`, ""},
		{"/", ".causes tbody td:nth-child(8)", ofGroup + `'DEAD'`, ""},
		{"/", ".topics tbody td:nth-child(2)", ofTopic + `'PENDING'`, ""},
		{"/", ".topics tbody td:nth-child(4)", ofTopic + `'DEAD'`, ""},
		{"/topics", "#topics tbody td:nth-child(3)", ofTopic + `'PENDING'`, ""},
		{"/topics", "#topics tbody td:nth-child(5)", ofTopic + `'DEAD'`, ""},
		{"/topics", "#topics tbody td:nth-child(6)", ofTopic + `'RESOLVED'`, ""},
		{"/groups", `.groups [data-label="in 15 min"]`, lately, lately + documented},
		{"/groups", ".groups [data-label=Open]", ofGroup + `'PENDING'`, ""},
		{"/groups", ".groups [data-label=Dead]", ofGroup + `'DEAD'`, ""},
		{"/groups", ".groups [data-label=Arrived]", inGroup, ""},
		{group, ".figures > :nth-child(1) .value", lately, lately + documented},
	}
	for i, status := range []string{"PENDING", "RETRYING", "DEAD", "RESOLVED"} {
		list = append(list, counted{group, ".figures > :nth-child(" + strconv.Itoa(i+2) + ") .value", ofGroup + `'` + status + `'`, ""},
			counted{"/messages?count=exact&status=" + status, "#count strong", ofStatus + `'` + status + `'`, ""})
	}
	return append(list, counted{group, ".figures > :nth-child(6) .value", inGroup, ""})
}

// TestEveryCount: under load, each count of each page lies between the results of two SQL queries, one before and one
// after the page was read. At rest the count and the results are equal.
func TestEveryCount(t *testing.T) {
	t.Parallel()
	s := NewEmptySite(t)
	db, err := sqlx.Connect("postgres", s.database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	number := func(query string) (n int64) {
		t.Helper()
		if err := db.Get(&n, query); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		return n
	}
	store := func() {
		if _, err := db.Exec(`INSERT INTO dlq.dlq_messages (original_topic, error_message, status, created_at)
			SELECT 'counts.' || substr('ab', 1 + n % 2, 1), 'boom', (ARRAY['PENDING', 'DEAD', 'RESOLVED'])[1 + n % 3], now() - n / 30 * interval '20 minutes'
			FROM generate_series(1, 36) n`); err != nil {
			t.Error(err)
		}
	}
	store()
	atRest := func() bool {
		return number(inGroup) == number(`SELECT count(*) FROM dlq.message_documents`) && number(inGroup) == number(`SELECT count(*) FROM dlq.dlq_messages`)
	}
	s.await("the first messages are indexed", atRest)
	var id string
	if err := db.Get(&id, `SELECT id FROM dlq.error_groups`); err != nil {
		t.Fatal(err)
	}
	b := Open(t, s.URL)
	walk := func(exact bool) {
		at := ""
		for _, c := range everyCount("/groups/" + id) {
			least := number(c.sql)
			if c.least != "" && !exact {
				least = number(c.least)
			}
			if c.page != at || !exact {
				b.Visit(c.page)
				at = c.page
			}
			text := b.Text(c.selector)
			if text == "–" && !exact {
				continue // the page shows a dash as long as the number is not counted
			}
			s.await(c.page+" knows the number", func() bool {
				if text == "–" {
					b.Visit(c.page)
					text = b.Text(c.selector)
				}
				return text != "–"
			})
			shown := shownNumber(t, text)
			if most := number(c.sql); shown < least || shown > most {
				t.Errorf("%s %s shows %d (at rest: %t), want %d to %d", c.page, c.selector, shown, exact, least, most)
			}
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		for ticker := time.NewTicker(50 * time.Millisecond); ctx.Err() == nil; <-ticker.C {
			store()
		}
	}()
	walk(false)
	stop()
	<-over
	s.await("all messages are indexed", atRest)
	walk(true)
}

var firstNumber = regexp.MustCompile(`[0-9][0-9,]*`)

func shownNumber(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(strings.ReplaceAll(firstNumber.FindString(text), ",", ""), 10, 64)
	if err != nil {
		t.Fatalf("%q has no number", text)
	}
	return n
}
