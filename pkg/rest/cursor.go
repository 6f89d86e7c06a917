package rest

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

// A cursor is a position in a list, after a signature of that position and of the list's question. It cannot be
// made up or taken to another list. It is no secret and no permission.
const (
	cursorPurpose = "cursor"
	cursorSum     = 16 // bytes of the signature
)

const (
	defaultLimit = 100
	maxLimit     = 1000
)

type listing struct {
	question string // the path, and the parameters that narrow the list
	limit    int
	place    []byte // from the cursor; nil for the list's beginning
	signer   *auth.Signer
}

// listingOf reads limit, which may be missing, and cursor. A cursor is bound to the narrowing parameters; size is
// that of a position.
func (s *Server) listingOf(r *http.Request, size, missing int, narrowing ...string) (listing, error) {
	query := r.URL.Query()
	asked := url.Values{}
	for _, name := range narrowing {
		if query.Has(name) {
			asked[name] = query[name]
		}
	}
	l := listing{question: r.URL.EscapedPath() + "?" + asked.Encode(), signer: s.signer}
	var err error
	if l.limit, err = intParameter(query, "limit", missing, maxLimit); err != nil {
		return l, err
	}
	text, err := textParameter(query, "cursor")
	if err != nil || !query.Has("cursor") {
		return l, err
	}
	l.place, err = l.read(text, size)
	return l, err
}

func (l listing) read(text string, size int) ([]byte, error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || base64.RawURLEncoding.EncodeToString(raw) != text || len(raw) < cursorSum || size != anySize && len(raw) != cursorSum+size ||
		!l.signer.Verify(cursorPurpose, l.signed(raw[cursorSum:]), raw[:cursorSum]) {
		return nil, &entity.FieldError{Field: "cursor", Reason: "is not one that this list, with these parameters, has given"}
	}
	return raw[cursorSum:], nil
}

func (l listing) cursor(place []byte) string {
	sum := l.signer.Sign(cursorPurpose, l.signed(place))
	return base64.RawURLEncoding.EncodeToString(append(sum[:cursorSum:cursorSum], place...))
}

// signed is the text that is signed for a position. A question has no line break.
func (l listing) signed(place []byte) string { return l.question + "\n" + string(place) }

// part returns the items of a page, of which one more was read, and the cursor of the next page; nil for none.
func part[T any](l listing, items []T, place func(last T) []byte) ([]T, *string) {
	if len(items) <= l.limit {
		return items, nil
	}
	items = items[:l.limit]
	next := l.cursor(place(items[l.limit-1]))
	return items, &next
}

const (
	anySize    = -1 // of places that are names
	numberSize = 8
	placeSize  = numberSize + 16
)

func numberPlace(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

// number is 0 for the beginning of a list.
func (l listing) number() int64 {
	if l.place == nil {
		return 0
	}
	return int64(binary.BigEndian.Uint64(l.place))
}

func timePlace(at time.Time, id uuid.UUID) []byte {
	return append(numberPlace(at.UnixMicro()), id[:]...)
}

// before is the zero Place for the beginning of a list.
func (l listing) before() repository.Cursor {
	if l.place == nil {
		return repository.Cursor{}
	}
	at := time.UnixMicro(int64(binary.BigEndian.Uint64(l.place))).UTC()
	return repository.Cursor{CreatedAt: at, ID: uuid.UUID(l.place[numberSize:])}
}
