package postgres

import (
	"context"
	"errors"
	"reflect"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// plain reports whether a page is the next piece of an index and no more: of all
// messages or of those of one original topic, in the order of their creation. It
// needs no plan for its own arguments, and no transaction for its one statement.
// Whatever else a filter asks for may be rare or common, which a plan has to know.
func plain(q repository.SearchQuery, n names) bool {
	return q.Sort.By == repository.ByCreated && !n.number.Valid &&
		reflect.DeepEqual(q.Filter, entity.Filter{Topic: q.Filter.Topic})
}

// plainPage answers a plain question in one round trip.
func (s *Store) plainPage(ctx context.Context, from source, q repository.SearchQuery, n names) ([]entity.Message, error) {
	bounded, cancel := context.WithTimeout(ctx, s.searchPatience)
	defer cancel()
	query, args := pageQuery(from, listed(from, q, n, leaveOut))
	messages := make([]entity.Message, 0, min(q.Limit, expected))
	var shown shownPage
	err := s.eachRow(bounded, query, args, nil, func(r *row) error {
		m, err := shown.message(ctx, r)
		messages = append(messages, m)
		return err
	})
	if err != nil {
		return nil, translate("search messages", tooLong(ctx, bounded, err))
	}
	return messages, nil
}

// tooLong makes a *repository.TooBroadError of the error of a statement that was
// ended because its own time was over, not its caller's.
func tooLong(caller, own context.Context, err error) error {
	ended := errors.Is(err, context.DeadlineExceeded) || isCanceled(err)
	if ended && own.Err() != nil && caller.Err() == nil {
		return &repository.TooBroadError{}
	}
	return err
}
