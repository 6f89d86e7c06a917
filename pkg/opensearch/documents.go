package opensearch

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Document is a document with the facts of its message.
type Document struct {
	repository.EngineFacts
	Text   string
	Terms  []int64
	Fields *entity.DocumentFields // nil: only text and terms
}

// stored is a document as OpenSearch has it.
type stored struct {
	ID            string   `json:"id"`
	Created       int64    `json:"created"` // microseconds of Unix time
	Digest        int64    `json:"digest"`
	Topic         string   `json:"topic"`
	DLQTopic      string   `json:"dlq_topic"`
	ErrorClass    string   `json:"error_class,omitempty"`
	ConsumerGroup string   `json:"consumer_group,omitempty"`
	Dialect       string   `json:"dialect,omitempty"`
	Group         string   `json:"group,omitempty"`
	Archived      bool     `json:"archived"`
	Text          string   `json:"text"`
	Terms         []string `json:"terms,omitempty"`

	// The values for facets, by the slot of their facet's key.
	Values map[string][]string `json:"values,omitempty"`
}

func (s *stored) setFacts(f repository.EngineFacts) {
	s.ID, s.Created, s.Digest = f.ID.String(), f.CreatedAt.UnixMicro(), repository.EngineDigest(f.ID)
	s.Topic, s.DLQTopic, s.Group, s.Archived = f.OriginalTopic, f.DLQTopic, "", f.Archived
	if f.Group != uuid.Nil {
		s.Group = f.Group.String()
	}
}

func storedOf(d Document) stored {
	s := stored{Text: d.Text, Terms: termTexts(d.Terms)}
	s.setFacts(d.EngineFacts)
	if f := d.Fields; f != nil {
		s.ErrorClass, s.ConsumerGroup, s.Dialect, s.Values = f.ErrorClass, f.ConsumerGroup, f.Dialect, slotsOf(f.Values)
	}
	return s
}

// termTexts returns terms as keywords.
func termTexts(terms []int64) []string {
	texts := make([]string, len(terms))
	for i, t := range terms {
		texts[i] = strconv.FormatUint(uint64(t), 36) //nolint:gosec // any 64 bits
	}
	return texts
}

// Limits of the values of one document, in bytes. A value that is longer is left out.
const (
	maxValue  = 1 << 10
	maxValues = 64 << 10
)

// A value is the text of its facet's key, the separator, a letter for its kind, and the value. The text that ends after
// the separator says that the message has a value there.
const separator = "\x1f"

var kindLetters = map[string]string{
	string(repository.StringValue): "s", string(repository.NumberValue): "n", string(repository.BooleanValue): "b",
	string(repository.NullValue): "0", string(repository.BytesValue): "x",
}

// slots is the number of fields that have the values. The values of one key are all in one field, which mostly has
// values of this key only, so that a facet reads nothing else. A field for each key could exceed the number of
// fields that OpenSearch permits, because anybody who writes records invents keys.
const slots = 512

// slotOf returns the name of the slot that has the values of a key.
func slotOf(key string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key))
	return strconv.Itoa(int(h.Sum32() % slots))
}

// slotsOf returns values as keywords, by their slot.
func slotsOf(values []entity.DocumentValue) map[string][]string {
	texts := map[string][]string{}
	size := 0
	seen := map[string]bool{}
	add := func(key, text string) {
		if !seen[text] && utf8.ValidString(text) && size+len(text) <= maxValues {
			seen[text], size = true, size+len(text)
			slot := slotOf(key)
			texts[slot] = append(texts[slot], text)
		}
	}
	for _, v := range values {
		add(v.Key, v.Key+separator)
		if len(v.Value) > maxValue {
			continue
		}
		if v.Kind == string(repository.BytesValue) {
			v.Value = base64.StdEncoding.EncodeToString([]byte(v.Value))
		}
		add(v.Key, v.Key+separator+kindLetters[v.Kind]+v.Value)
	}
	return texts
}

// bulk collects writes of documents and sends them in one request.
type bulk struct {
	client  *Client
	number  int64
	body    bytes.Buffer
	ids     []uuid.UUID
	refused map[uuid.UUID]bool // documents that a later write has replaced
}

func (c *Client) newBulk(number int64) *bulk {
	return &bulk{client: c, number: number, refused: map[uuid.UUID]bool{}}
}

const maxBulk = 8 << 20

type target struct {
	Index       string `json:"_index"`
	ID          string `json:"_id"`
	Version     int64  `json:"version"`
	VersionType string `json:"version_type"`
}

func (b *bulk) add(ctx context.Context, action, index, id string, source any) error {
	key, err := uuid.Parse(id)
	if err != nil {
		return fmt.Errorf("document %q: %w", id, err)
	}
	encode := json.NewEncoder(&b.body)
	encode.SetEscapeHTML(false)
	if err := encode.Encode(map[string]target{action: {index, id, b.number, "external_gte"}}); err != nil {
		return err
	}
	if source != nil {
		if err := encode.Encode(source); err != nil {
			return err
		}
	}
	b.ids = append(b.ids, key)
	if b.body.Len() < maxBulk {
		return nil
	}
	return b.send(ctx)
}

// send sends the writes. After it, searches see them.
func (b *bulk) send(ctx context.Context) error {
	if len(b.ids) == 0 {
		return nil
	}
	var answer struct {
		Items []map[string]struct {
			Status int      `json:"status"`
			Error  *failure `json:"error"`
		} `json:"items"`
	}
	err := b.client.do(ctx, http.MethodPost, "/_bulk?refresh=true&filter_path=items.*.status,items.*.error.type,items.*.error.reason", b.body.Bytes(), &answer)
	ids := b.ids
	b.ids = nil
	b.body.Reset()
	if err != nil {
		return err
	}
	if len(answer.Items) != len(ids) {
		return translate(fmt.Errorf("%w: %d of %d writes", errIncomplete, len(answer.Items), len(ids)))
	}
	var errs error
	for i, item := range answer.Items {
		for operation, result := range item {
			gone := operation == "delete" && result.Status == http.StatusNotFound
			switch {
			case result.Status == http.StatusConflict:
				b.refused[ids[i]] = true
			case result.Error != nil && !gone:
				errs = worse(errs, translate(&answerError{result.Status, result.Error.Type, result.Error.reason()}))
			}
		}
	}
	return errs
}

// worse returns the error that decides about a whole request: an engine that is away makes it fail as a whole.
func worse(a, b error) error {
	if a == nil || errors.Is(a, entity.ErrInvalid) {
		return b
	}
	return a
}

// Write stores documents. A document that was written with a higher number stays as it is; Write returns the ids of
// these messages.
func (c *Client) Write(ctx context.Context, version, number int64, documents []Document) (refused map[uuid.UUID]bool, err error) {
	if err := c.prepare(ctx, version); err != nil {
		return nil, err
	}
	b := c.newBulk(number)
	for _, d := range documents {
		if err := b.add(ctx, "index", c.index(version, d.CreatedAt), d.ID.String(), storedOf(d)); err != nil {
			return nil, err
		}
	}
	return b.refused, b.send(ctx)
}

// Update gives the documents of messages their present facts. It deletes the documents of messages without facts, and
// documents in the index of another day. lost are messages with facts that have no document.
func (c *Client) Update(
	ctx context.Context, version, number int64, ids []uuid.UUID, facts []repository.EngineFacts,
) (refused map[uuid.UUID]bool, lost []uuid.UUID, err error) {
	known := map[string]repository.EngineFacts{}
	for _, f := range facts {
		known[f.ID.String()] = f
	}
	b := c.newBulk(number)
	seen := map[string]bool{}
	for part := range slices.Chunk(ids, updatedAtOnce) {
		err := c.eachDocument(ctx, version, part, func(hit hit) error {
			f, exists := known[hit.ID]
			if !exists || hit.Index != c.index(version, f.CreatedAt) {
				return b.add(ctx, "delete", hit.Index, hit.ID, nil)
			}
			seen[hit.ID] = true
			hit.Source.setFacts(f)
			return b.add(ctx, "index", hit.Index, hit.ID, hit.Source)
		})
		if err != nil {
			return nil, nil, err
		}
	}
	for id, f := range known {
		if !seen[id] {
			lost = append(lost, f.ID)
		}
	}
	return b.refused, lost, b.send(ctx)
}

const updatedAtOnce = 500

// eachDocument calls yield for the documents of messages. It asks for fewer of them at once when they are too large for
// one answer.
func (c *Client) eachDocument(ctx context.Context, version int64, ids []uuid.UUID, yield func(hit) error) error {
	var found hits
	err := c.search(ctx, c.searchPath(c.alias(version)), object{
		"size": 2 * updatedAtOnce, "query": object{"terms": object{"id": ids}}, "track_total_hits": false,
	}, &found)
	if half := len(ids) / 2; half > 0 && errors.Is(err, errLargeAnswer) {
		if err := c.eachDocument(ctx, version, ids[:half], yield); err != nil {
			return err
		}
		return c.eachDocument(ctx, version, ids[half:], yield)
	}
	for _, hit := range found.Hits.Hits {
		if err := yield(hit); err != nil {
			return err
		}
	}
	return err
}

// Delete deletes documents.
func (c *Client) Delete(ctx context.Context, version, number int64, documents []repository.Cursor) error {
	b := c.newBulk(number)
	for _, d := range documents {
		if err := b.add(ctx, "delete", c.index(version, d.CreatedAt), d.ID.String(), nil); err != nil {
			return err
		}
	}
	return b.send(ctx)
}

// hits is the answer to a search.
type hits struct {
	PIT  string `json:"pit_id"`
	Hits struct {
		Hits []hit `json:"hits"`
	} `json:"hits"`
}

// hit is a found document.
type hit struct {
	Index  string `json:"_index"`
	ID     string `json:"_id"`
	Source stored `json:"_source"`
}

func (h *hits) ids() ([]uuid.UUID, error) {
	ids := make([]uuid.UUID, len(h.Hits.Hits))
	for i, hit := range h.Hits.Hits {
		var err error
		if ids[i], err = uuid.Parse(hit.ID); err != nil {
			return nil, fmt.Errorf("document %q: %w", hit.ID, err)
		}
	}
	return ids, nil
}
