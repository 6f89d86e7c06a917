// Package request reads requests: bodies, parameters, filters and cursors, and the server's data about a request.
// Errors name the part of the request that is wrong.
package request

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
)

const (
	defaultPageSize = 20
	maxPage         = 1_000_000
	maxPageSize     = 1000

	maxTopic = 255
)

// ID reads the id in the path. It accepts only the form of 36 characters: the other forms that UUID libraries accept
// would give one object more URLs.
func ID(r *http.Request, what string) (uuid.UUID, error) {
	text := r.PathValue("id")
	id, ok := CanonicalID(text)
	if !ok {
		return uuid.Nil, respond.Refused(entity.ErrInvalid, "invalid "+what+" id: "+respond.Clip(text),
			respond.Detail{Field: "id", Reason: "must be a UUID in its canonical form of 36 characters"})
	}
	return id, nil
}

// CanonicalID reads an id in its form of 36 characters, with capital or small letters.
func CanonicalID(text string) (uuid.UUID, bool) {
	id, err := uuid.Parse(text)
	return id, err == nil && len(text) == len(uuid.Nil.String())
}

// Topic returns the topic that the path of the request names.
func Topic(r *http.Request) string { return r.PathValue("topic") }

// PossibleTopic reports whether any message can have this topic; a database does not accept some names as text.
func PossibleTopic(name string) bool { return PossibleText(name, maxTopic) }

// WellFormedQuery refuses a query that net/url cannot read completely. net/url would drop the unreadable part, such as
// the number of the page, and the answer would be page 1.
func WellFormedQuery(r *http.Request) error {
	if _, err := url.ParseQuery(r.URL.RawQuery); err != nil {
		return &entity.FieldError{Field: "query", Reason: "must be name=value pairs joined by &, percent-encoded"}
	}
	return nil
}

// PageNumber reads the number of the page and the size of pages.
func PageNumber(r *http.Request) (repository.Page, error) {
	query := r.URL.Query()
	number, numberErr := Int(query, "page", 1, maxPage)
	size, sizeErr := Int(query, "page_size", defaultPageSize, maxPageSize)
	return repository.Page{Number: number, Size: size}, errors.Join(numberErr, sizeErr)
}

// Int reads a whole number from 1 to highest; if the query does not contain the parameter, Int returns the default in
// the parameter missing.
func Int(query url.Values, name string, missing, highest int) (int, error) {
	text, err := Text(query, name)
	if err != nil || !query.Has(name) {
		return missing, err
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n < 1 || n > uint64(highest) {
		return 0, &entity.FieldError{Field: name, Reason: fmt.Sprintf("must be a whole number from 1 to %d", highest)}
	}
	return int(n), nil
}

// Text reads a parameter that may be given once; "" when it is missing.
func Text(query url.Values, name string) (string, error) {
	if len(query[name]) > 1 {
		return "", &entity.FieldError{Field: name, Reason: "given more than once"}
	}
	return query.Get(name), nil
}

// Word reads a parameter that is one of the words; "" when it is missing.
func Word[T ~string](query url.Values, name string, words []T) (T, error) {
	text, err := Text(query, name)
	if err != nil || !query.Has(name) {
		return "", err
	}
	if !slices.Contains(words, T(text)) {
		return "", &entity.FieldError{Field: name, Reason: OneOf(words)}
	}
	return T(text), nil
}

// Bool reads a parameter that is true or false; false when it is missing.
func Bool(query url.Values, name string) (bool, error) {
	text, err := Word(query, name, []string{"true", "false"})
	return text == "true", err
}

// Statuses reads a list of statuses, as repeated parameters or separated by commas; nil when the parameter is missing.
func Statuses(query url.Values) (statuses []entity.Status, err error) {
	if !query.Has("status") {
		return nil, nil
	}
	for text := range strings.SplitSeq(strings.Join(query["status"], ","), ",") {
		status, err := entity.ParseStatus(text)
		if err != nil {
			return nil, &entity.FieldError{Field: "status", Reason: OneOf(entity.Statuses())}
		}
		statuses = append(statuses, status)
	}
	return statuses, nil
}

// OneOf returns the reason for which a word is refused: it must be one of words.
func OneOf[T ~string](words []T) string {
	var list []string
	for _, word := range words {
		list = append(list, string(word))
	}
	return "must be one of " + strings.Join(list, ", ")
}

// ParseTime reads a time in RFC 3339. The year must be from 1970 to 9999.
func ParseTime(name, text string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, text)
	if at = at.UTC(); err != nil || at.Year() < 1970 || at.Year() > 9999 {
		return time.Time{}, &entity.FieldError{Field: name, Reason: "must be a time such as 2026-02-20T10:30:00Z"}
	}
	return entity.TruncateTime(at), nil
}

// PossibleText reports whether a store can hold the text, and the text is not longer than most: databases do not accept
// every byte as text.
func PossibleText(text string, most int) bool {
	return utf8.ValidString(text) && !strings.ContainsRune(text, 0) && utf8.RuneCountInString(text) <= most
}

// A cursor is a signature followed by a position in a list; the signature covers the position and the list's query. It
// cannot be forged or used for another list. It contains no secret, and gives its owner no permission.
const (
	cursorPurpose = "cursor"
	cursorSum     = 16 // length of the signature in bytes
)

// DefaultLimit is the length of a page without the parameter limit, in most lists; MaxLimit is the highest limit.
const (
	DefaultLimit = 100
	MaxLimit     = 1000
)

// Cursors signs the cursors of lists, and reads the cursors that clients send back.
type Cursors struct{ Signer *auth.Signer }

// List is a request for a page of a list.
type List struct {
	question string // the path, and the parameters that filter the list
	Limit    int
	Position []byte // position from the cursor; nil for the list's beginning
	signer   *auth.Signer
}

// List reads the query parameters limit and cursor of a request. The parameter missing is the limit of a request
// without limit. A cursor is valid only while the query parameters in narrowing have the same values. size is the size
// of a position in bytes.
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

// Cursor returns the cursor for the page that follows a position.
func (l List) Cursor(position []byte) string {
	sum := l.signer.Sign(cursorPurpose, l.signed(position))
	return base64.RawURLEncoding.EncodeToString(append(sum[:cursorSum:cursorSum], position...))
}

// signed returns the text that is signed for a position. The query in it has no line break, so the text cannot mean
// another query and position.
func (l List) signed(position []byte) string { return l.question + "\n" + string(position) }

// Part returns the items of a page and the cursor of the next page. The caller has read one item more than the page
// shows; without that item there is no next page, and the cursor is nil.
func Part[T any](l List, items []T, position func(last T) []byte) ([]T, *string) {
	if len(items) <= l.Limit {
		return items, nil
	}
	items = items[:l.Limit]
	next := l.Cursor(position(items[l.Limit-1]))
	return items, &next
}

// The sizes in bytes of the positions that cursors contain.
const (
	AnySize    = -1 // size of positions that are names, of any length
	NumberSize = 8
	TimeSize   = NumberSize + 16
)

// NumberPosition returns the position of an item in a list that is ordered by numbers.
func NumberPosition(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

// Number returns the number in the cursor, at or before which the requested page begins; 0 for the first page.
func (l List) Number() int64 {
	if l.Position == nil {
		return 0
	}
	return int64(binary.BigEndian.Uint64(l.Position))
}

// TimePosition returns the position of an object in a list that is ordered by time.
func TimePosition(at time.Time, id uuid.UUID) []byte {
	return append(NumberPosition(at.UnixMicro()), id[:]...)
}

// Before returns the time and the id before which the requested page begins; the zero Cursor for the first page.
func (l List) Before() repository.Cursor {
	if l.Position == nil {
		return repository.Cursor{}
	}
	at := time.UnixMicro(int64(binary.BigEndian.Uint64(l.Position))).UTC()
	return repository.Cursor{CreatedAt: at, ID: uuid.UUID(l.Position[NumberSize:])}
}
