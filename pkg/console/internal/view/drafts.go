package view

import (
	"context"
	"slices"
	"sync"
)

// maxDrafts is the largest number of drafts that MemoryDrafts keeps; a further draft takes the place of the oldest.
const maxDrafts = 20

// MemoryDrafts stores the newest drafts of all owners in memory, however old, for a program without a database, which
// has no other replicas.
type MemoryDrafts struct {
	mu     sync.Mutex
	drafts []memoryDraft
}

type memoryDraft struct {
	id      string
	content []byte
}

// KeepDraft implements Drafts.
func (m *MemoryDrafts) KeepDraft(_ context.Context, id, _ string, content []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.drafts) == maxDrafts {
		m.drafts = slices.Delete(m.drafts, 0, 1)
	}
	m.drafts = append(m.drafts, memoryDraft{id, content})
	return nil
}

// Draft implements Drafts.
func (m *MemoryDrafts) Draft(_ context.Context, id string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range m.drafts {
		if d.id == id {
			return d.content, nil
		}
	}
	return nil, nil
}
