package repositorytest

import (
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

func viewsPromises() []promise {
	return []promise{
		{"AreSeenByTheirOwnerAndSharedOnesByAll", viewsSeen},
		{"NameIsTakenOnce", viewsTaken},
		{"ChangeNeedsTheLatestVersion", viewsVersion},
		{"ChangesOfSharedOnesAreInTheTrail", viewsAudit},
	}
}

func (h *harness) views(owner string) []entity.View {
	h.Helper()
	return check.Must(h.Repository.Views(h.Context(), owner))(h)
}

func (h *harness) saveView(v entity.View) entity.View {
	h.Helper()
	return check.Must(h.Repository.SaveView(h.Context(), v, fullCause()))(h)
}

func view(owner, name string, shared bool) entity.View {
	return entity.View{ID: uuid.New(), Name: name, Owner: owner, Shared: shared, List: "messages", Query: "status=DEAD"}
}

func viewsSeen(h *harness) {
	own, theirs := h.saveView(view("alice", "b", false)), h.saveView(view("bob", "b", false))
	shared := h.saveView(view("bob", "a", true))
	second := h.saveView(view("alice", "c", false))
	check.Same(h, h.views("alice"), []entity.View{own, second, shared}, "views of alice")
	check.Same(h, h.views("bob"), []entity.View{theirs, shared}, "views of bob")
	check.Same(h, h.views("carol"), []entity.View{shared}, "views of carol")
	check.NoError(h, h.Repository.DeleteView(h.Context(), own.ID, fullCause()))
	check.NoError(h, h.Repository.DeleteView(h.Context(), own.ID, fullCause()))
	check.Same(h, h.views("alice"), []entity.View{second, shared}, "views of alice after a delete")
}

func (h *harness) wantViewConflict(v entity.View) {
	h.Helper()
	var conflict *entity.ViewConflictError
	_, err := h.Repository.SaveView(h.Context(), v, fullCause())
	check.True(h, errors.As(err, &conflict) && conflict.Name == v.Name, "SaveView = %v, want a ViewConflictError", err)
}

func viewsTaken(h *harness) {
	h.saveView(view("alice", "a", false))
	h.saveView(view("alice", "a", true))
	h.saveView(view("bob", "a", false))
	h.wantViewConflict(view("alice", "a", false))
	h.wantViewConflict(view("bob", "a", true))
	check.Len(h, h.views("alice"), 2, "views of alice")
}

func viewsVersion(h *harness) {
	v := h.saveView(view("alice", "a", false))
	check.Same(h, v.Version, int64(1), "version of a new view")
	h.clock.Advance(time.Second)
	changed := v
	changed.Query, changed.List = "topic=orders", "archive"
	got := h.saveView(changed)
	changed.Version, changed.UpdatedAt = 2, h.clock.Kept()
	check.Same(h, got, changed, "changed view")
	h.wantViewConflict(v)
	h.wantViewConflict(entity.View{ID: uuid.New(), Name: "gone", Owner: "alice", List: "messages", Version: 1})
	check.Same(h, h.views("alice"), []entity.View{changed}, "views after conflicts")
}

func viewsAudit(h *harness) {
	h.saveView(view("alice", "mine", false))
	shared := h.saveView(view("alice", "ours", true))
	shared = h.saveView(shared)
	check.NoError(h, h.Repository.DeleteView(h.Context(), shared.ID, fullCause()))
	trail := h.trail(repository.TrailQuery{})
	check.Require(h, len(trail) == 3, "trail has %d entries, want 3", len(trail))
	for i, action := range []entity.Action{entity.ActionDelete, entity.ActionSave, entity.ActionSave} {
		e := trail[i]
		check.True(h, e.Action == action && e.Kind == entity.KindView && e.ObjectID == shared.ID && e.LastError == "ours: status=DEAD" &&
			e.Cause.Reason == fullCause().Reason, "entry %d = %+v, want %s of the shared view", i, e, action)
	}
}
