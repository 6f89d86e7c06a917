package bulk

import (
	"crypto/sha256"
	"sync"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/attempt"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// items holds the results of one leased batch. It is safe for concurrent use.
type items struct {
	numbers map[uuid.UUID]int // position of each message in the selection
	todo    []uuid.UUID

	mu          sync.Mutex // guards the fields below
	results     map[uuid.UUID]entity.RedriveItem
	unreachable []uuid.UUID // messages whose target was unreachable, or that were given back because of an error
	locked      bool        // another database session locks rows of some of the messages
	withheld    bool        // some of the messages wait, see pass.withhold
	// keys of the messages that are being sent and whose results keyOrder.learn has not read yet
	sending  map[uuid.UUID]recordKey
	doubtful bool // attempts may have been made whose results this process does not know
}

// newItems returns the items of a leased batch. begun is true when some of the messages already have a result, which an
// earlier owner has saved.
func newItems(b *repository.RedriveBatch) (s *items, begun bool) {
	s = &items{numbers: make(map[uuid.UUID]int, len(b.Items)), results: map[uuid.UUID]entity.RedriveItem{}}
	for i, item := range b.Items {
		s.numbers[item.MessageID] = b.First + i
		if item.Result == entity.ItemWaiting {
			s.todo = append(s.todo, item.MessageID)
		} else {
			begun = true
		}
	}
	return s, begun
}

// markLocked records that another database session locks the row of some message.
func (s *items) markLocked() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.locked = true
}

// markWithheld records that some message must wait until another pass.
func (s *items) markWithheld() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.withheld = true
}

func (s *items) set(item entity.RedriveItem) {
	s.mu.Lock()
	defer s.mu.Unlock()
	item.Number = s.numbers[item.MessageID]
	s.results[item.MessageID] = item
}

func (s *items) skip(id uuid.UUID, reason string) {
	s.set(entity.RedriveItem{MessageID: id, Result: entity.ItemSkipped, Reason: reason, Offset: -1})
}

// addUnreachable records a message whose target partition was not reachable. The lease decides later whether to skip
// the message; see decideUnreachable.
func (s *items) addUnreachable(id uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unreachable = append(s.unreachable, id)
}

// skipMissing skips those of the ids whose message was deleted or archived, so that loaded does not contain it.
func (s *items) skipMissing(ids []uuid.UUID, loaded []entity.Message) {
	if len(ids) == len(loaded) {
		return
	}
	there := make(map[uuid.UUID]bool, len(loaded))
	for _, m := range loaded {
		there[m.ID] = true
	}
	s.skipOthers(ids, there, repository.SkippedGone)
}

// skipOthers skips, with this reason, those of the ids that the set some does not contain.
func (s *items) skipOthers(ids []uuid.UUID, some map[uuid.UUID]bool, reason string) {
	for _, id := range ids {
		if !some[id] {
			s.skip(id, reason)
		}
	}
}

// markDoubtful records that the results of some of the batch's attempts are not known yet.
func (s *items) markDoubtful() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doubtful = true
}

// unknown returns the ids of the batch's messages that have no result yet.
func (s *items) unknown() []uuid.UUID {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []uuid.UUID
	for _, id := range s.todo {
		if _, known := s.results[id]; !known {
			ids = append(ids, id)
		}
	}
	return ids
}

// addSending remembers the key of a message whose result is not known yet.
func (s *items) addSending(id uuid.UUID, key recordKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sending == nil {
		s.sending = map[uuid.UUID]recordKey{}
	}
	s.sending[id] = key
}

// itemOf returns the result of an attempt; ended is false for an attempt that has not ended, and for an attempt that
// was given back.
func itemOf(a entity.Attempt) (item entity.RedriveItem, ended bool) {
	item = entity.RedriveItem{
		MessageID: a.MessageID, Reason: string(a.Class),
		Topic: a.Topic, TopicID: a.TopicID, Partition: a.Partition, Offset: a.Offset,
	}
	switch {
	// an operator took the message over from an attempt that cannot be settled; the attempt's record may be in the
	// topic
	case a.Verdict == entity.Abandoned:
		item.Result, item.Offset = entity.ItemInDoubt, -1
	case a.To == entity.Resolved:
		item.Result, item.Reason = entity.ItemSucceeded, ""
		if a.Verdict == entity.Skipped {
			item.Topic, item.Offset = "", -1
		}
	case a.To == entity.Dead:
		item.Result = entity.ItemDead
	case a.Verdict == entity.Failed:
		item.Result = entity.ItemFailed
	case a.Verdict == entity.Refused:
		item.Result, item.Topic = entity.ItemSkipped, ""
	default:
		return entity.RedriveItem{}, false
	}
	return item, true
}

// attemptOf turns an outcome into an attempt with the fields that itemOf reads.
func attemptOf(o attempt.Outcome) entity.Attempt {
	t := o.Outgoing.Target
	return entity.Attempt{
		MessageID: o.Outgoing.Message.ID, Verdict: o.Delivery.Verdict, To: o.Finished.Status, Class: o.Delivery.Class,
		Topic: t.Topic, TopicID: t.TopicID, Partition: o.Delivery.Partition, Offset: o.Delivery.Offset,
	}
}

// recordKey identifies the messages of one original topic and key. It contains a hash of the key, which may be long,
// because it stays in memory until the redrive ends.
type recordKey struct {
	topic string
	key   [sha256.Size]byte
}

func keyOf(m entity.Message) (recordKey, bool) {
	return recordKey{m.OriginalTopic, sha256.Sum256(m.Record.Key)}, len(m.Record.Key) > 0
}
