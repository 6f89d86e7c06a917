package redrive

import (
	"bytes"
	"fmt"
	"reflect"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/redrivetest"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// anEdit returns an edit whose content depends only on the command's numbers.
func anEdit(c command) *entity.Edit {
	rng := c.rng()
	e := &entity.Edit{}
	kind := 1 + rng.IntN(7)
	if kind&1 != 0 {
		e.SetValue, e.Value = true, fmt.Appendf(nil, "edited %d", rng.Uint64())
	}
	if kind&2 != 0 {
		e.SetKey, e.Key = true, fmt.Appendf(nil, "key %d", rng.IntN(3))
	}
	if kind&4 != 0 {
		e.Topic = payments
	}
	return e
}

// sometimes returns an edit or nil, depending on the numbers of the command.
func sometimes(c command) *entity.Edit {
	if c.a%2 == 0 {
		return nil
	}
	return anEdit(c)
}

// noteEdits remembers, for watchBytes, the edits that the store has stored with these claims. The caller holds mu.
func (w *world) noteEdits(claims []repository.Claim, taken []entity.Message) {
	made := map[uuid.UUID]bool{}
	for _, m := range taken {
		made[m.Claim.ID] = true
	}
	for _, c := range claims {
		if _, known := w.edits[c.ID]; made[c.ID] && !known {
			w.edits[c.ID] = c.Edit
		}
	}
}

// patchedValue applies a patch to a value.
func patchedValue(patch, value []byte) ([]byte, error) {
	p, err := payload.CompilePatch(patch)
	if err != nil {
		return nil, err
	}
	return p.Apply(value)
}

// watchBytes checks a record that the broker writes: the record and its topic must be the message's, changed by the
// edit that was stored with the claim. The caller holds mu.
func (w *world) watchBytes(out entity.Outgoing, at topicPartition) {
	id, attempt := out.Message.ID, out.Message.Claim.ID
	edit, known := w.edits[attempt]
	w.want(known, "a record without a claim", "attempt %s of message %s", attempt, id)
	want, topic := w.records[id], out.Message.OriginalTopic
	if edit != nil {
		w.score.edited++
		want, topic = edit.Apply(want), redrivetest.TopicOf(entity.Outgoing{Message: out.Message, Edit: edit})
		if edit.Patch != nil {
			var err error
			if want.Value, err = patchedValue(edit.Patch, w.records[id].Value); err != nil {
				w.fail("a patch that does not fit", "message %s: %v", id, err)
			}
		}
	}
	sent := out.Edit.Apply(out.Message.Record)
	if at.topic != topic || !bytes.Equal(sent.Key, want.Key) || !bytes.Equal(sent.Value, want.Value) {
		w.fail("other bytes", "message %s, attempt %s: sent %q, %q to %s, want %q, %q to %s",
			id, attempt, sent.Key, sent.Value, at.topic, want.Key, want.Value, topic)
	}
}

// checkAnswer checks that a successful retry has sent the requested edit. The caller holds mu.
func (w *world) checkAnswer(order entity.RetryOrder, r written) {
	if order.Edit != nil && !reflect.DeepEqual(w.edits[r.attempt], order.Edit) {
		w.fail("an edit that was ignored", "message %s: %+v was ordered, and attempt %s with %+v is the answer", order.ID, order.Edit, r.attempt, w.edits[r.attempt])
	}
}

// checkEdit compares the edit in the history with the edit that was stored with the claim.
func (w *world) checkEdit(a entity.Attempt) {
	if want := w.edits[a.ID]; !reflect.DeepEqual(a.Edit, want) {
		w.fail("another edit", "attempt %s has %+v, want %+v", a.ID, a.Edit, want)
	}
}

// checkRecord checks that a message still has its original key and value.
func (w *world) checkRecord(m entity.Message) {
	if want := w.records[m.ID]; !bytes.Equal(m.Record.Key, want.Key) || !bytes.Equal(m.Record.Value, want.Value) {
		w.fail("another record", "message %s has %q, %q, want %q, %q", m.ID, m.Record.Key, m.Record.Value, want.Key, want.Value)
	}
}
