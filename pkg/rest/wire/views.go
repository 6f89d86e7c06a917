package wire

import (
	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Views are the views that a principal sees.
type Views struct {
	Views []SavedView `json:"views"`
}

// SavedView is a saved filter of a list.
type SavedView struct {
	ID        uuid.UUID `json:"id"`
	Name      string    `json:"name"`
	Owner     *string   `json:"owner"`
	Shared    bool      `json:"shared"`
	List      string    `json:"list"`
	Query     string    `json:"query"`
	Version   int64     `json:"version"`
	UpdatedAt *string   `json:"updated_at"`
}

// NewSavedView shows a view.
func NewSavedView(v entity.View) SavedView {
	return SavedView{v.ID, v.Name, OrNull(v.Owner), v.Shared, v.List, v.Query, v.Version, Stamp(v.UpdatedAt)}
}
