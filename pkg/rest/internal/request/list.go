package request

import (
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// A cursor is a signature followed by a position in a list; the signature covers the position and the list's query.
// It cannot be forged or used for another list. It is neither secret nor a permission.
const (
	cursorPurpose = "cursor"
	cursorSum     = 16 // bytes of the signature
)

// The limits of lists: without the parameter, and at most.
const (
	DefaultLimit = 100
	MaxLimit     = 1000
)

// Cursors reads and signs the cursors of lists.
type Cursors struct{ Signer *auth.Signer }

// List is a request for a page of a list.
type List struct {
	question string // the path, and the parameters that filter the list
	Limit    int
	Position []byte // from the cursor; nil for the list's beginning
	signer   *auth.Signer
}

// List reads limit, which may be missing, and cursor. A cursor is bound to the filter parameters; size is the
// size of a position in bytes.
func (c Cursors) List(r *http.Request, size, missing int, narrowing ...string) (List, error) {
	query := r.URL.Query()
	asked := url.Values{}
	for _, name := range narrowing {
		if query.Has(name) {
			asked[name] = query[name]
		}
	}
	l := List{question: r.URL.EscapedPath() + "?" + asked.Encode(), signer: c.Signer}
	var err error
	if l.Limit, err = Int(query, "limit", missing, MaxLimit); err != nil {
		return l, err
	}
	text, err := Text(query, "cursor")
	if err != nil || !query.Has("cursor") {
		return l, err
	}
	l.Position, err = l.read(text, size)
	return l, err
}

func (l List) read(text string, size int) ([]byte, error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || base64.RawURLEncoding.EncodeToString(raw) != text || len(raw) < cursorSum || size != AnySize && len(raw) != cursorSum+size ||
		!l.signer.Verify(cursorPurpose, l.signed(raw[cursorSum:]), raw[:cursorSum]) {
		return nil, &entity.FieldError{Field: "cursor", Reason: "is not one that this list, with these parameters, has given"}
	}
	return raw[cursorSum:], nil
}

// Cursor returns the cursor of a position.
func (l List) Cursor(position []byte) string {
	sum := l.signer.Sign(cursorPurpose, l.signed(position))
	return base64.RawURLEncoding.EncodeToString(append(sum[:cursorSum:cursorSum], position...))
}

// signed returns the text that is signed for a position. A query has no line break.
func (l List) signed(position []byte) string { return l.question + "\n" + string(position) }

// Part returns the items of a page, for which one extra item was read, and the cursor of the next page; nil for none.
func Part[T any](l List, items []T, position func(last T) []byte) ([]T, *string) {
	if len(items) <= l.Limit {
		return items, nil
	}
	items = items[:l.Limit]
	next := l.Cursor(position(items[l.Limit-1]))
	return items, &next
}

// The sizes of positions in bytes.
const (
	AnySize    = -1 // for positions that are names
	NumberSize = 8
	TimeSize   = NumberSize + 16
)

// NumberPosition returns the position of a number.
func NumberPosition(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

// Number returns 0 for the beginning of a list.
func (l List) Number() int64 {
	if l.Position == nil {
		return 0
	}
	return int64(binary.BigEndian.Uint64(l.Position))
}

// TimePosition returns the position of an object in a list by times.
func TimePosition(at time.Time, id uuid.UUID) []byte {
	return append(NumberPosition(at.UnixMicro()), id[:]...)
}

// Before returns the zero Place for the beginning of a list.
func (l List) Before() repository.Place {
	if l.Position == nil {
		return repository.Place{}
	}
	at := time.UnixMicro(int64(binary.BigEndian.Uint64(l.Position))).UTC()
	return repository.Place{CreatedAt: at, ID: uuid.UUID(l.Position[NumberSize:])}
}
