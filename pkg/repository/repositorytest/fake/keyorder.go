package fake

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// inKeyOrder sorts messages as a retry with KeepKeyOrder selects them; see repository.Redrives.CreateRedrive.
func (s *Store) inKeyOrder(found []selected) {
	slices.SortFunc(found, func(a, b selected) int { return compareDeaths(s.selectedMessage(a), s.selectedMessage(b)) })
	lanes := map[string][]int{} // the places of the messages of each lane
	for place, f := range found {
		own := lane(s.selectedMessage(f), f)
		lanes[own] = append(lanes[own], place)
	}
	type turn struct {
		selected
		turn int
	}
	var turns []turn
	for _, places := range lanes {
		slices.SortStableFunc(places, func(a, b int) int {
			return cmp.Compare(originalOffset(s.selectedMessage(found[a])), originalOffset(s.selectedMessage(found[b])))
		})
		latest := 0
		for _, place := range places {
			latest = max(latest, place)
			turns = append(turns, turn{found[place], latest})
		}
	}
	slices.SortStableFunc(turns, func(a, b turn) int { return cmp.Compare(a.turn, b.turn) })
	for i := range turns {
		found[i] = turns[i].selected
	}
}

func (s *Store) selectedMessage(f selected) *entity.Message {
	if r, ok := s.Rows[f.id]; ok {
		return &r.Message
	}
	return &entity.Message{}
}

func compareDeaths(a, b *entity.Message) int {
	died := func(m *entity.Message) int64 {
		if m.Source.Timestamp.IsZero() {
			return m.CreatedAt.UnixMicro()
		}
		return m.Source.Timestamp.UnixMicro()
	}
	return cmp.Or(cmp.Compare(died(a), died(b)), cmp.Compare(a.Source.Partition, b.Source.Partition),
		cmp.Compare(a.Source.Offset, b.Source.Offset), bytes.Compare(a.ID[:], b.ID[:]))
}

func originalOffset(m *entity.Message) int64 {
	if m.Origin.Offset == nil {
		return -1
	}
	return *m.Origin.Offset
}

// lane is the same for messages of which those with higher original offsets come later.
func lane(m *entity.Message, f selected) string {
	if f.reason != "" || m.OriginalTopic == "" || m.Origin.Partition == nil || *m.Origin.Partition < 0 || originalOffset(m) < 0 || len(m.Record.Key) == 0 {
		return f.id.String()
	}
	return fmt.Sprintf("%s/%d/%s", m.OriginalTopic, *m.Origin.Partition, m.Record.Key)
}
