package search

import (
	"context"
	"fmt"
	"net/http"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/access"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/request"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
	"github.com/dlq-manager/dlq-manager/pkg/rest/wire"
)

// Topic sends a page of the messages of a topic.
func (h Lists) Topic(w http.ResponseWriter, r *http.Request) error {
	page, err := request.PageNumber(r)
	if err != nil {
		return err
	}
	var list repository.List
	if name := request.Topic(r); request.PossibleTopic(name) {
		if list, err = h.topicPage(r.Context(), name, page); err != nil {
			return err
		}
	}
	v, err := h.Unmask.View(r, false)
	if err != nil {
		return err
	}
	v.Limit = wire.MaxListPayload
	respond.Messages(w, h.Show, list.Messages, v, struct {
		Pagination wire.Pagination `json:"pagination"`
	}{wire.Pagination{TotalCount: list.Total, Page: page.Number, PageSize: page.Size, HasNext: list.HasNext(page)}})
	return nil
}

const (
	// maxNarrowed is how many messages users with roles on only some topics can skip; later pages are refused, because
	// pages of such users are filtered row by row.
	maxNarrowed = 10_000

	// narrowedStep is how many messages one query reads while it skips to the page of a user with roles on only some
	// topics.
	narrowedStep = 1000
)

func (h Lists) topicPage(ctx context.Context, name string, page repository.Page) (repository.List, error) {
	scope := access.PrincipalFrom(ctx).Scope(auth.Viewer)
	if scope == nil {
		return h.Store.List(ctx, name, page)
	}
	if h.Database == nil {
		return repository.List{}, &repository.NeedsDatabaseError{Feature: "a list for roles on some topics only"}
	}
	if page.Offset() > maxNarrowed {
		return repository.List{}, &entity.FieldError{
			Field: "page", Reason: fmt.Sprintf("must be within the first %d messages for roles on some topics only; use /api/v1/messages", maxNarrowed),
		}
	}
	filter := entity.Filter{Topic: name, Visible: scope}
	count, err := h.Database.CountMatching(ctx, repository.CountQuery{Filter: filter, How: repository.CountExact})
	if err != nil || count.Messages == 0 {
		return repository.List{}, err
	}
	list := repository.List{Total: count.Messages}
	list.Messages, err = h.searchPage(ctx, repository.SearchQuery{Filter: filter, Limit: page.Size}, int(page.Offset()))
	return list, err
}

// searchPage returns a page of a search: the matches that follow the first skip messages.
func (h Lists) searchPage(ctx context.Context, q repository.SearchQuery, skip int) ([]entity.Message, error) {
	for skip > 0 {
		before := q
		before.Limit = min(skip, narrowedStep)
		found, err := h.Database.Search(ctx, before)
		if err != nil || len(found.Messages) < before.Limit {
			return nil, err
		}
		last := found.Messages[len(found.Messages)-1]
		q.After, skip = repository.Cursor{CreatedAt: last.CreatedAt, ID: last.ID}, skip-before.Limit
	}
	found, err := h.Database.Search(ctx, q)
	return found.Messages, err
}
