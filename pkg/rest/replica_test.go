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

// oneMark is a replica that always returns the same mark.
type oneMark struct{ err error }

func (m oneMark) WriteMark(context.Context) (string, error) { return "16/B374D848", m.err }

func (oneMark) CheckMark(mark string) error {
	if mark == "16/B374D848" {
		return nil
	}
	return errors.New("is not a mark")
}

// marksSeen is a store that records the marks with which its searches are called.
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

// TestReplicaMarks: a change that succeeds answers with a mark; a read passes the mark in its request to the store.
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

// TestReplicaMarkFails: a change whose mark cannot be read is answered without one.
func TestReplicaMarkFails(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA)).with(WithReplica(oneMark{err: entity.ErrUnavailable})).open()
	changed := f.do("POST", oneA+"/dead", "")
	wantStatus(t, changed, 200)
	check.Equal(t, changed.Header().Get("DLQ-Read-After"), "", "mark")
}

// TestFailedRetryHasAMark: a retry whose record could not be sent has stored an attempt, so its answer has a mark, also
// when it is sent again with the same key. A 503 has none: the database, which has the mark, does not answer.
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

// partly is a store whose replica answers the first search of a request, and not the count that follows.
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

// TestReplicaAnswersAPart: a request that the replica answered only in part is read again, as a whole.
func TestReplicaAnswersAPart(t *testing.T) {
	t.Parallel()
	seen := &partly{}
	f := newFixture(message(idA))
	seen.Store = f.memory
	f.over(seen).with(WithReplica(oneMark{})).open()
	wantStatus(t, f.do("GET", "/api/v1/messages?count=exact", ""), 200, idA.String())
	check.Equal(t, seen.searches, 2, "searches of one request")
}

// TestNoReplica: without a replica the header means nothing, and no read may use another database.
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
