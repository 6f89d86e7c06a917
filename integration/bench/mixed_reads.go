package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"

	"github.com/google/uuid"
)

// mixedRead is one of the questions of the mix.
type mixedRead struct {
	name  string
	of    int    // so many of a hundred
	list  string // what is counted in the answer; empty: the id is looked for
	least int
	paths []string // by turns
}

// mixedReads is what operators and their tools ask, all of it answered from the
// table that is written to.
func (d *database) mixedReads(ctx context.Context) ([]mixedRead, error) {
	ids, err := d.someIDs(ctx, mixedGetIDs)
	if err != nil {
		return nil, err
	}
	return mix(messagePaths(ids)), nil
}

// mix is what is asked how often, single messages by these paths.
func mix(messages []string) []mixedRead {
	var quiet, flooding, searches []string
	byTopic := func(topic string) {
		searches = append(searches,
			fmt.Sprintf("/api/v1/messages?limit=%d&status=PENDING&topic=%s", mixedPageSize, topic),
			fmt.Sprintf("/api/v1/messages?limit=%d&q=%s", mixedPageSize, url.QueryEscape("order charged")))
	}
	page := func(topic string) string { return fmt.Sprintf("/api/v1/dlq/%s?page_size=%d", topic, mixedPageSize) }
	for n := range readTopics {
		quiet = append(quiet, page(readTopic(n)))
		byTopic(readTopic(n))
	}
	for n := range mixedTopics {
		flooding = append(flooding, page(originalTopic(mixedName(n))))
		byTopic(originalTopic(mixedName(n)))
	}
	return []mixedRead{
		{name: "list page", of: 20, list: "messages", least: mixedPageSize, paths: quiet},
		{name: "list page of a topic that is written to", of: 20, list: "messages", least: mixedPageSize, paths: flooding},
		{name: "search page", of: 20, list: "messages", least: 1, paths: searches},
		{name: "message", of: 30, paths: messages},
		{name: "topics", of: 5, list: "topics", least: readTopics + mixedTopics, paths: []string{"/api/v1/topics"}},
		{name: "error groups", of: 5, list: "groups", least: mixedPageSize, paths: []string{fmt.Sprintf("/api/v1/groups?limit=%d", mixedPageSize)}},
	}
}

func messagePaths(ids []uuid.UUID) (paths []string) {
	for _, id := range ids {
		paths = append(paths, "/api/v1/dlq/messages/"+id.String())
	}
	return paths
}

// drawn is the question of a number below 100.
func drawn(reads []mixedRead, of int) mixedRead {
	for _, r := range reads {
		if of -= r.of; of < 0 {
			return r
		}
	}
	return reads[len(reads)-1]
}

// mixedAsk asks the n-th question of a sequence that is the same for every run.
func mixedAsk(callers []*caller, reads []mixedRead) func(worker, n int) error {
	return func(worker, n int) error {
		random := rand.New(rand.NewPCG(uint64(n), uint64(worker)))
		r := drawn(reads, random.IntN(100))
		path := r.paths[random.IntN(len(r.paths))]
		body, err := callers[worker].get(path)
		if err != nil {
			return err
		}
		if r.list == "" {
			if id := path[strings.LastIndexByte(path, '/')+1:]; !strings.Contains(string(body), id) {
				return fmt.Errorf("no message %s in %.100s", id, body)
			}
			return nil
		}
		return checkList(n, body, r.list, r.least)
	}
}
