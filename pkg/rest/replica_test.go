package rest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/repositorytest/fake"
)

// oneMark is a Replica that issues the same mark for every change, or fails with err.
type oneMark struct{ err error }

func (m oneMark) WriteMark(context.Context) (string, error) { return "16/B374D848", m.err }

func (oneMark) CheckMark(mark string) error {
	if mark == "16/B374D848" {
		return nil
	}
	return errors.New("is not a mark")
}

// marksSeen is a store that records the mark of each search.
type marksSeen struct {
	*fake.Store
	searches []string
}

func markIn(ctx context.Context) string {
	if reading := repository.ReadingOf(ctx); reading != nil {
		return "reading " + reading.After()
	}
	return "none"
}

func (s *marksSeen) Search(ctx context.Context, q repository.SearchQuery) (repository.SearchPage, error) {
	s.searches = append(s.searches, markIn(ctx))
	return s.Store.Search(ctx, q)
}

// TestReplicaMarks: the answer to a change that succeeds contains a mark. A read gives the mark of its request to the
// store.
func TestReplicaMarks(t *testing.T) {
	t.Parallel()
	seen := &marksSeen{}
	f := newFixture(message(idA))
	seen.Store = f.memory
	f.over(seen).with(WithReplica(oneMark{})).open()

	changed := f.do("POST", oneA+"/dead", "")
	wantStatus(t, changed, 200)
	check.Equal(t, changed.Header().Get("DLQ-Read-After"), "16/B374D848", "mark of a change")
	refused := f.do("POST", oneA+"/dead", "")
	wantStatus(t, refused, 409)
	check.Equal(t, refused.Header().Get("DLQ-Read-After"), "", "mark of a change that was refused")

	list := f.do("GET", "/api/v1/messages", "")
	wantStatus(t, list, 200)
	check.Equal(t, list.Header().Get("DLQ-Read-After"), "", "mark of a read")
	wantStatus(t, f.do("GET", "/api/v1/messages", "", "DLQ-Read-After", "16/B374D848"), 200)
	check.Equal(t, seen.searches, []string{"reading ", "reading 16/B374D848"}, "reads")
	wantStatus(t, f.do("GET", "/api/v1/messages", "", "DLQ-Read-After", "yesterday"), 400, `"DLQ-Read-After"`, "is not a mark")
}

// TestReplicaMarkFails: when the database does not say the mark after a change, the answer to the change has no mark.
func TestReplicaMarkFails(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA)).with(WithReplica(oneMark{err: entity.ErrUnavailable})).open()
	changed := f.do("POST", oneA+"/dead", "")
	wantStatus(t, changed, 200)
	check.Equal(t, changed.Header().Get("DLQ-Read-After"), "", "mark")
}

// TestFailedRetryHasAMark: a retry whose record could not be sent has stored an attempt. So its answer has a mark, and
// so has the same answer when it is sent again for its Idempotency-Key. An answer 503 has no mark, because the
// database, which makes marks, does not answer.
func TestFailedRetryHasAMark(t *testing.T) {
	t.Parallel()
	f := newFixture().with(WithReplica(oneMark{}))
	f.redriver = failing(fmt.Errorf("retry: %w", &entity.PublishError{
		ID: idA, Class: entity.NetworkTimeout, Status: entity.Pending, RetryAt: noon.Add(2 * time.Second),
	}))
	f.open()
	for range 2 {
		failed := f.do("POST", retryA, "", "Idempotency-Key", "one")
		wantStatus(t, failed, 502)
		check.Equal(t, failed.Header().Get("DLQ-Read-After"), "16/B374D848", "mark of a retry that failed")
	}

	f = newFixture().with(WithReplica(oneMark{}))
	f.redriver = failing(entity.ErrUnavailable)
	away := f.open().do("POST", retryA, "")
	wantStatus(t, away, 503)
	check.Equal(t, away.Header().Get("DLQ-Read-After"), "", "mark of a change that the database did not answer")
}

// partly is a store in which a replica answers the first search of a request, and cannot answer the count that follows.
type partly struct {
	*fake.Store
	searches int
}

func (s *partly) Search(ctx context.Context, q repository.SearchQuery) (repository.SearchPage, error) {
	s.searches++
	repository.ReadingOf(ctx).TakeReplica()
	return s.Store.Search(ctx, q)
}

func (s *partly) CountMatching(ctx context.Context, q repository.CountQuery) (repository.MatchCount, error) {
	if reading := repository.ReadingOf(ctx); !reading.UsesPrimary() {
		return repository.MatchCount{}, fmt.Errorf("count: %w", reading.UsePrimary())
	}
	return s.Store.CountMatching(ctx, q)
}

// TestReplicaAnswersAPart: when the replica answers only the search of a request and not its count, the database
// answers both.
func TestReplicaAnswersAPart(t *testing.T) {
	t.Parallel()
	seen := &partly{}
	f := newFixture(message(idA))
	seen.Store = f.memory
	f.over(seen).with(WithReplica(oneMark{})).open()
	wantStatus(t, f.do("GET", "/api/v1/messages?count=exact", ""), 200, idA.String())
	check.Equal(t, seen.searches, 2, "searches of one request")
}

// TestNoReplica: without a replica the header DLQ-Read-After is ignored, and no read has a Reading.
func TestNoReplica(t *testing.T) {
	t.Parallel()
	seen := &marksSeen{}
	f := newFixture(message(idA))
	seen.Store = f.memory
	f.over(seen).open()
	wantStatus(t, f.do("GET", "/api/v1/messages", "", "DLQ-Read-After", "yesterday"), 200)
	check.Equal(t, seen.searches, []string{"none"}, "reads")
	check.Equal(t, f.do("POST", oneA+"/dead", "").Header().Get("DLQ-Read-After"), "", "mark of a change")
}
