package rest

import (
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
	"github.com/gorilla/mux"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

const (
	defaultPageSize = 20
	maxPage         = 1_000_000
	maxPageSize     = 1000

	maxTopic = 255
)

// idOf reads the id of the path. Only the canonical form is accepted: the other spellings that UUID libraries accept
// would give one object several addresses.
func idOf(r *http.Request, what string) (uuid.UUID, error) {
	text := segment(r, "id")
	id, ok := canonicalID(text)
	if !ok {
		return uuid.Nil, refused(entity.ErrInvalid, "invalid "+what+" id: "+clip(text),
			detail{"id", "must be a UUID in its canonical form of 36 characters"})
	}
	return id, nil
}

func canonicalID(text string) (uuid.UUID, bool) {
	id, err := uuid.Parse(text)
	return id, err == nil && len(text) == len(uuid.Nil.String())
}

func topic(r *http.Request) string { return segment(r, "topic") }

// possibleTopic reports whether any message can have this topic; a database does not accept some names as text.
func possibleTopic(name string) bool { return possibleText(name, maxTopic) }

func segment(r *http.Request, name string) string {
	encoded := mux.Vars(r)[name]
	if text, err := url.PathUnescape(encoded); err == nil {
		return text
	}
	return encoded
}

// wellFormedQuery refuses a query of which net/url would drop a part: the answer would be page 1 instead of the
// requested page.
func wellFormedQuery(r *http.Request) error {
	if _, err := url.ParseQuery(r.URL.RawQuery); err != nil {
		return &entity.FieldError{Field: "query", Reason: "must be name=value pairs joined by &, percent-encoded"}
	}
	return nil
}

func pageOf(r *http.Request) (repository.Page, error) {
	query := r.URL.Query()
	number, numberErr := intParameter(query, "page", 1, maxPage)
	size, sizeErr := intParameter(query, "page_size", defaultPageSize, maxPageSize)
	return repository.Page{Number: number, Size: size}, errors.Join(numberErr, sizeErr)
}

// intParameter reads a whole number from 1 to highest.
func intParameter(query url.Values, name string, missing, highest int) (int, error) {
	text, err := textParameter(query, name)
	if err != nil || !query.Has(name) {
		return missing, err
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n < 1 || n > uint64(highest) {
		return 0, &entity.FieldError{Field: name, Reason: fmt.Sprintf("must be a whole number from 1 to %d", highest)}
	}
	return int(n), nil
}

// textParameter reads a parameter that may be given once; "" when it is missing.
func textParameter(query url.Values, name string) (string, error) {
	if len(query[name]) > 1 {
		return "", &entity.FieldError{Field: name, Reason: "given more than once"}
	}
	return query.Get(name), nil
}

func wordParameter[T ~string](query url.Values, name string, words []T) (T, error) {
	text, err := textParameter(query, name)
	if err != nil || !query.Has(name) {
		return "", err
	}
	if !slices.Contains(words, T(text)) {
		return "", &entity.FieldError{Field: name, Reason: oneOf(words)}
	}
	return T(text), nil
}

// boolParameter reads true or false; false when it is missing.
func boolParameter(query url.Values, name string) (bool, error) {
	text, err := wordParameter(query, name, []string{"true", "false"})
	return text == "true", err
}

func oneOf[T ~string](words []T) string {
	var list []string
	for _, word := range words {
		list = append(list, string(word))
	}
	return "must be one of " + strings.Join(list, ", ")
}

// parseTime reads RFC 3339, within the years that this API can write.
func parseTime(name, text string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, text)
	if at = at.UTC(); err != nil || at.Year() < 1970 || at.Year() > 9999 {
		return time.Time{}, &entity.FieldError{Field: name, Reason: "must be a time such as 2026-02-20T10:30:00Z"}
	}
	return entity.Moment(at), nil
}

// possibleText reports whether a store can hold this text: databases do not accept every byte as text.
func possibleText(text string, most int) bool {
	return utf8.ValidString(text) && !strings.ContainsRune(text, 0) && utf8.RuneCountInString(text) <= most
}
