package repositorytest

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

func redirectsPromises() []promise {
	return []promise{
		{"AreListedByTopic", redirectsListed},
		{"ReplacedHasAnotherVersion", redirectReplaced},
		{"OtherVersionIsRefused", redirectVersions},
		{"MadeAgainHasAnotherVersion", redirectAgain},
		{"SameOperationAgainChangesNothing", redirectOperation},
		{"OneOfManyCallersCreates", redirectRace},
		{"IsInTheTrailWithItsTopic", redirectAudit},
		{"DeletedIsNotFound", redirectDeleted},
	}
}

func (h *harness) redirect(topic, target string) entity.Redirect {
	h.Helper()
	return check.Must(h.Repository.SaveRedirect(h.Context(), topic, target, nil, entity.By("alice")))(h)
}

func (h *harness) wantRedirects(want ...entity.Redirect) {
	h.Helper()
	got := check.Must(h.Repository.Redirects(h.Context()))(h)
	check.Same(h, got, append([]entity.Redirect{}, want...), "Redirects")
}

func redirectsListed(h *harness) {
	h.wantRedirects()
	cause := fullCause()
	b := check.Must(h.Repository.SaveRedirect(h.Context(), "b", "d", nil, cause))(h)
	want := entity.Redirect{
		Topic: "b", Target: "d", Version: b.Version, Reason: cause.Reason, UpdatedAt: h.clock.Kept(), UpdatedBy: cause.Actor,
	}
	check.Same(h, b, want, "SaveRedirect")
	c, upper := h.redirect("c", "b"), h.redirect("B", "b")
	h.wantRedirects(upper, b, c)
	targets, err := h.Repository.RedirectTargets(h.Context(), []string{"c", "", "b", "unknown"})
	check.True(h, err == nil && len(targets) == 2 && targets["b"] == "d" && targets["c"] == "b",
		"RedirectTargets = %v, %v, want d for b and b for c", targets, err)
}

func redirectReplaced(h *harness) {
	first := h.redirect("a", "b")
	h.clock.Advance(time.Hour)
	second := h.redirect("a", "c")
	check.True(h, second.Version != first.Version && second.Version > 0, "versions = %d and %d", first.Version, second.Version)
	check.Same(h, second.UpdatedAt, h.clock.Kept(), "time of the change")
	h.wantRedirects(second)
}

func (h *harness) wantChanged(err error, version int64) {
	h.Helper()
	var changed *entity.ChangedError
	check.True(h, errors.As(err, &changed) && changed.Version == version && errors.Is(err, entity.ErrChanged),
		"got %v, want a ChangedError with version %d", err, version)
}

func redirectVersions(h *harness) {
	ctx, cause := h.Context(), entity.By("alice")
	save := func(expected int64) (entity.Redirect, error) {
		return h.Repository.SaveRedirect(ctx, "a", "b", &expected, cause)
	}
	_, err := save(7)
	h.wantChanged(err, 0)
	r := check.Must(save(0))(h)
	for _, expected := range []int64{0, r.Version + 1, -1} {
		_, err := save(expected)
		h.wantChanged(err, r.Version)
		_, err = h.Repository.DeleteRedirect(ctx, "a", &expected, cause)
		h.wantChanged(err, r.Version)
	}
	h.wantRedirects(r)
	next := check.Must(save(r.Version))(h)
	check.Must(h.Repository.DeleteRedirect(ctx, "a", &next.Version, cause))(h)
	h.wantRedirects()
}

func redirectAgain(h *harness) {
	first := h.redirect("a", "b")
	check.Must(h.Repository.DeleteRedirect(h.Context(), "a", nil, entity.By("bob")))(h)
	check.True(h, h.redirect("a", "b").Version != first.Version, "a redirect that was made again has the version of the first")
}

func redirectOperation(h *harness) {
	ctx, cause := h.Context(), fullCause()
	r := check.Must(h.Repository.SaveRedirect(ctx, "a", "b", new(int64), cause))(h)
	h.clock.Advance(time.Hour)
	check.Same(h, check.Must(h.Repository.SaveRedirect(ctx, "a", "b", new(int64), cause))(h), r, "the same operation again")
	check.Same(h, check.Must(h.Repository.SaveRedirect(ctx, "a", "b", nil, cause))(h), r, "the same operation without a version")
	check.Len(h, h.trail(repository.TrailQuery{Kind: entity.KindRedirect}), 1, "entries of the trail")
	gone := fullCause()
	check.Must(h.Repository.DeleteRedirect(ctx, "a", nil, gone))(h)
	check.Same(h, check.Must(h.Repository.DeleteRedirect(ctx, "a", nil, gone))(h), entity.Redirect{Topic: "a"}, "deleted again")
}

func redirectRace(h *harness) {
	var won atomic.Int64
	together(8, func(int) {
		_, err := h.Repository.SaveRedirect(h.Context(), "a", "b", new(int64), fullCause())
		switch {
		case err == nil:
			won.Add(1)
		case !errors.Is(err, entity.ErrChanged):
			h.Errorf("SaveRedirect: %v, want ErrChanged", err)
		}
	})
	check.Same(h, won.Load(), 1, "callers that created it")
	check.Len(h, h.trail(repository.TrailQuery{Kind: entity.KindRedirect}), 1, "entries of the trail")
}

func redirectAudit(h *harness) {
	ctx, cause := h.Context(), fullCause()
	h.redirect("a", "b")
	h.clock.Advance(time.Second)
	check.Must(h.Repository.SaveRedirect(ctx, "a", "c", nil, cause))(h)
	replaced := entity.AuditEntry{
		At: h.clock.Kept(), Action: entity.ActionRedirect, Kind: entity.KindRedirect, ObjectID: entity.RedirectID("a"),
		From: "b", To: "c", Topics: "a", Cause: cause,
	}
	h.clock.Advance(time.Second)
	gone := fullCause()
	check.Must(h.Repository.DeleteRedirect(ctx, "a", nil, gone))(h)
	deleted := replaced
	deleted.At, deleted.Action, deleted.From, deleted.To, deleted.Cause = h.clock.Kept(), entity.ActionDelete, "c", "", gone
	got := h.trail(repository.TrailQuery{ObjectID: entity.RedirectID("a")})
	for i := range got {
		got[i].ID = 0
	}
	check.Require(h, len(got) == 3, "%d entries, want 3", len(got))
	check.Same(h, got[:2], []entity.AuditEntry{deleted, replaced}, "trail")
	others := check.Must(entity.ParseTopicPatterns("topics", "b"))(h)
	check.Len(h, h.trail(repository.TrailQuery{ObjectID: entity.RedirectID("a"), Visible: &others}), 0, "entries that others see")
}

func redirectDeleted(h *harness) {
	_, err := h.Repository.DeleteRedirect(h.Context(), "a", nil, entity.By("alice"))
	check.Is(h, err, entity.ErrNotFound, "DeleteRedirect of none")
	r := h.redirect("a", "b")
	check.Same(h, check.Must(h.Repository.DeleteRedirect(h.Context(), "a", nil, entity.By("alice")))(h), r, "DeleteRedirect")
	h.wantRedirects()
	_, err = h.Repository.DeleteRedirect(h.Context(), "a", nil, entity.By("alice"))
	check.Is(h, err, entity.ErrNotFound, "DeleteRedirect of the deleted")
}
