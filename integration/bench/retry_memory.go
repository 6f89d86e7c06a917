package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
)

// looked is what an API took for lists of a large table.
type looked struct {
	rows   int   // that it listed
	memory int64 // most that was resident, in bytes
}

const (
	// lookedPage is the largest page that there is.
	lookedPage  = 1000
	lookedPages = 20
)

// lookAround lists the table from its first page on, with a process of its own:
// in the one that retried it would be part of that profile.
func (p *retryPart) lookAround(ctx context.Context) (err error) {
	p.say("listing %d messages", lookedPages*lookedPage)
	api, err := p.program("api", p.live).serve(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, api.stop()) }()
	if err := p.turnPages(ctx, api); err != nil {
		return fmt.Errorf("list messages: %w", err)
	}
	for _, path := range []string{
		"/api/v1/topics", fmt.Sprintf("/api/v1/groups?limit=%d", lookedPage),
		fmt.Sprintf("/api/v1/dlq/%s?page_size=100", deadLetterTopic(names[1])),
	} {
		if _, err := api.fetch(ctx, path); err != nil {
			return err
		}
	}
	p.looked.memory, err = peakMemory(api.Pid())
	return err
}

func (p *retryPart) turnPages(ctx context.Context, api *running) error {
	cursor := ""
	for range lookedPages {
		body, err := api.fetch(ctx, fmt.Sprintf("/api/v1/messages?limit=%d%s", lookedPage, cursor))
		if err != nil {
			return err
		}
		n, err := things(body, "messages")
		if err != nil {
			return err
		}
		p.looked.rows += n
		var answer struct {
			Next *string `json:"next_cursor"`
		}
		if err := json.Unmarshal(body, &answer); err != nil {
			return err
		}
		if answer.Next == nil {
			break
		}
		cursor = "&cursor=" + url.QueryEscape(*answer.Next)
	}
	if want := min(lookedPages*lookedPage, p.opts.rows()); p.looked.rows != want {
		return fmt.Errorf("the run is worthless: %d messages in the lists, want %d", p.looked.rows, want)
	}
	return nil
}

func (p *retryPart) lookedLine() line {
	return memoryLine(fmt.Sprintf("memory of the API, lists of %s in a table of %s", thousands(p.looked.rows), thousands(p.opts.rows())), p.looked.memory)
}

func (p *retryPart) memoryMethod() string {
	rows := thousands(p.opts.rows())
	return fmt.Sprintf("- **Memory of the API** with a backlog: once of the process that retried, while %s messages were\n"+
		"  in the table and most of them were not its task; and once of another that lists the same table,\n"+
		"  %d pages of up to %s messages one after the other, and then topics, error groups and a page of\n"+
		"  a topic.\n", rows, lookedPages, thousands(lookedPage))
}
