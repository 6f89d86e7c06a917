package admin

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/access"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/request"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
	"github.com/dlq-manager/dlq-manager/pkg/rest/wire"
)

// Redirects shows, sets and deletes the redirects of original topics. The caller of Replace and Delete has checked that
// the principal is admin on the topic of the path.
type Redirects struct {
	Database RedirectDatabase
	Redriver RedirectPreviewer
	Targets  Targets // nil: targets are not checked
	Cursors  request.Cursors
	Bodies   request.Bodies
}

// RedirectDatabase reads and changes the redirects, and counts the messages that they concern.
type RedirectDatabase interface {
	repository.Redirects
	TopicTotals(ctx context.Context, names []string) ([]repository.TopicTotal, error)
}

// RedirectPreviewer predicts what a redrive would do.
type RedirectPreviewer interface {
	// PreviewRedirected returns the expected result of a redrive with these redirects, by topic, and changes nothing.
	PreviewRedirected(ctx context.Context, order repository.NewRedrive, redirects map[string]string) (entity.Preview, error)
}

// Targets checks targets of replays.
type Targets interface {
	// CheckTarget returns a *entity.RefusedError when no record may be sent to the topic, or when the topic does not
	// exist.
	CheckTarget(ctx context.Context, topic string) error
}

// List sends a page of the redirects of the topics that the caller sees.
func (h Redirects) List(w http.ResponseWriter, r *http.Request) error {
	l, err := h.Cursors.List(r, request.AnySize, request.MaxLimit)
	if err != nil {
		return err
	}
	all, err := h.Database.Redirects(r.Context())
	if err != nil {
		return err
	}
	var shown []entity.Redirect
	for _, redirect := range all {
		if access.Principal(r).May(auth.Viewer, redirect.Topic) && (l.Position == nil || redirect.Topic > string(l.Position)) {
			shown = append(shown, redirect)
		}
	}
	shown, next := request.Part(l, shown, func(last entity.Redirect) []byte { return []byte(last.Topic) })
	respond.List(w, "redirects", wire.Each(shown, wire.NewRedirect), next)
	return nil
}

// Replace creates or replaces a redirect, or answers a dry run.
func (h Redirects) Replace(w http.ResponseWriter, r *http.Request) error {
	topic := request.Topic(r)
	var target request.Option[string]
	var dryRun bool
	cause, err := h.Bodies.ReadChange(w, r, request.Fields{"target": &target, "dry_run": &dryRun})
	if err != nil {
		return err
	}
	expected, err := ifMatch(r)
	if err == nil {
		err = checkRedirect(topic, target.Value)
	}
	if err == nil {
		err = access.MayTopic(r, auth.Operator, target.Value)
	}
	if err == nil {
		err = h.checkTarget(r.Context(), target.Value)
	}
	if err != nil {
		return err
	}
	if dryRun {
		return h.preview(w, r, topic, expected, map[string]string{topic: target.Value})
	}
	redirect, err := h.Database.SaveRedirect(r.Context(), topic, target.Value, expected, cause)
	if err != nil {
		return err
	}
	answerRedirect(w, &redirect, nil)
	return nil
}

// Delete deletes a redirect, or answers a dry run.
func (h Redirects) Delete(w http.ResponseWriter, r *http.Request) error {
	topic := request.Topic(r)
	cause, err := request.QueryCause(r)
	if err != nil {
		return err
	}
	expected, err := ifMatch(r)
	if err != nil {
		return err
	}
	dryRun, err := request.Bool(r.URL.Query(), "dry_run")
	if err != nil {
		return err
	}
	if dryRun {
		return h.preview(w, r, topic, expected, map[string]string{})
	}
	redirect, err := h.Database.DeleteRedirect(r.Context(), topic, expected, cause)
	if err != nil {
		return err
	}
	respond.JSON(w, http.StatusOK, wire.RedirectAnswer{Redirect: new(wire.NewRedirect(redirect))})
	return nil
}

func checkRedirect(topic, target string) error {
	var p request.Problems
	p.Refuse(!entity.ValidTopic(topic), "topic", "must be the name of a topic: 1 to 249 of A-Z a-z 0-9 . _ -")
	switch {
	case p.Refuse(!entity.ValidTopic(target), "target", "must be the name of a topic: 1 to 249 of A-Z a-z 0-9 . _ -"):
	default:
		p.Refuse(topic == target, "target", "must be another topic")
	}
	return p.Err()
}

// checkTarget checks the target of a redirect. When no record may be sent to it, the error is about the field target of
// the request.
func (h Redirects) checkTarget(ctx context.Context, target string) error {
	if h.Targets == nil {
		return nil
	}
	err := h.Targets.CheckTarget(ctx, target)
	var refused *entity.RefusedError
	if errors.As(err, &refused) {
		return &entity.FieldError{Field: "target", Reason: refused.Reason}
	}
	return err
}

// preview answers a dry run: how many messages the redirect concerns, and what a redrive would do with the messages
// that are PENDING.
func (h Redirects) preview(w http.ResponseWriter, r *http.Request, topic string, expected *int64, redirects map[string]string) error {
	ctx, cancel := context.WithTimeout(r.Context(), creationTime)
	defer cancel()
	present, err := h.present(ctx, topic)
	switch {
	case err != nil:
		return err
	case expected != nil && *expected != present.Version:
		return &entity.ChangedError{What: "the redirect of " + topic, Version: present.Version}
	case len(redirects) == 0 && present.Version == 0:
		return &entity.RedirectNotFoundError{Topic: topic}
	}
	totals, err := h.Database.TopicTotals(ctx, []string{topic})
	if err != nil {
		return err
	}
	counts := repository.TopicTotal{}
	for _, t := range totals {
		if t.Topic == topic && !t.Others {
			counts = t
		}
	}
	preview, err := h.Redriver.PreviewRedirected(ctx, repository.NewRedrive{
		Action: entity.RedriveRetry,
		Selection: entity.Selection{Filter: entity.Filter{
			Topic: topic, Visible: access.PrincipalFrom(ctx).Scope(auth.Admin),
		}},
		Options: entity.RedriveOptions{MinSample: entity.DefaultMinSample, CanaryWait: entity.DefaultCanaryWait},
	}, redirects)
	if err != nil {
		return err
	}
	shown := wire.NewRedirectPreview(redirects[topic], counts, preview)
	var current *entity.Redirect
	if present.Version != 0 {
		current = &present
	}
	answerRedirect(w, current, &shown)
	return nil
}

// present returns the redirect of a topic; the zero Redirect where there is none.
func (h Redirects) present(ctx context.Context, topic string) (entity.Redirect, error) {
	all, err := h.Database.Redirects(ctx)
	for _, redirect := range all {
		if redirect.Topic == topic {
			return redirect, err
		}
	}
	return entity.Redirect{}, err
}

// answerRedirect sends a redirect and the result of a dry run. The ETag of the answer is the version of the redirect.
func answerRedirect(w http.ResponseWriter, redirect *entity.Redirect, preview *wire.RedirectPreview) {
	answer := wire.RedirectAnswer{Preview: preview}
	if redirect != nil {
		answer.Redirect = new(wire.NewRedirect(*redirect))
		w.Header().Set("ETag", strconv.Quote(strconv.FormatInt(redirect.Version, 10)))
	}
	respond.JSON(w, http.StatusOK, answer)
}

// ifMatch reads from If-Match the version of the redirect that the caller expects; nil when the request does not have
// this header. With "0" the caller expects that there is no redirect.
func ifMatch(r *http.Request) (*int64, error) {
	text := r.Header.Get("If-Match")
	if text == "" {
		return nil, nil //nolint:nilnil // the request has no condition
	}
	number := strings.TrimSuffix(strings.TrimPrefix(text, `"`), `"`)
	version, err := strconv.ParseInt(number, 10, 64)
	if err != nil || version < 0 || strconv.Quote(number) != text || len(r.Header.Values("If-Match")) > 1 {
		return nil, &entity.FieldError{Field: "If-Match", Reason: `must be a version in quotation marks, as ETag has it; "0" for none`}
	}
	return &version, nil
}
