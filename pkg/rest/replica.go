package rest

import (
	"context"
	"errors"
	"net/http"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/request"
)

// Replica issues marks of the database's log. A read that is sent with a mark sees all changes before the mark, even if
// a replica of the database answers the read.
type Replica interface {
	// WriteMark returns a mark. A read with this mark sees all changes that were made before WriteMark was called.
	WriteMark(ctx context.Context) (string, error)
	// CheckMark returns an error for a text that is no mark of WriteMark.
	CheckMark(mark string) error
}

// readAfter is the header that carries a mark, in the answer to a change and in the request for a read.
const readAfter = "DLQ-Read-After"

// withReplica returns the context of a request. The answer to a change gets a new mark if mayHaveChanged accepts its
// status, even if the change failed, because a retry that could not be sent has stored its attempt. A read sees the
// changes before the mark that its request carries.
func (s *Server) withReplica(ctx context.Context, rt route, r *http.Request) (context.Context, error) {
	switch {
	case s.replica == nil || rt.kind == probe:
		return ctx, nil
	case rt.method != http.MethodGet:
		exchangeOf(r).changing = func(header http.Header) {
			if mark, err := s.replica.WriteMark(ctx); err == nil { // without a mark the next read may miss this change
				header.Set(readAfter, mark)
			}
		}
		return ctx, nil
	}
	mark := r.Header.Get(readAfter)
	if mark != "" {
		if err := s.replica.CheckMark(mark); err != nil {
			return ctx, &entity.FieldError{Field: readAfter, Reason: err.Error()}
		}
	}
	return repository.WithReading(ctx, mark), nil
}

// readAgain returns a handler that repeats a read. When a replica has answered only a part of the reads of a request,
// the database answers all of them again, so that no part of an answer is older than another. An answer that has begun
// cannot be repeated.
func readAgain(rt route, handle handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if rt.kind == read {
			r = r.WithContext(request.WithAudit(r.Context()))
		}
		err := handle(w, r)
		if errors.Is(err, repository.ErrReadAgain) && exchangeOf(r).status == 0 {
			return handle(w, r)
		}
		return err
	}
}
