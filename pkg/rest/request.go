package rest

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
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

	// maxTopic is the longest name that a store can hold.
	maxTopic = 255

	// anonymous is the actor of a request while nobody has to say who they are.
	anonymous = "anonymous"
)

// messageID reads the id of the path. Only the canonical form counts: the other
// spellings that UUID libraries accept would make two addresses of one message.
func messageID(r *http.Request) (uuid.UUID, error) {
	text := segment(r, "id")
	id, err := uuid.Parse(text)
	if err != nil || len(text) != len(uuid.Nil.String()) {
		return uuid.Nil, &requestError{kind: entity.ErrInvalid, text: "invalid message id: " + clip(text)}
	}
	return id, nil
}

// topic reads the topic of the path, which may be any text.
func topic(r *http.Request) string { return segment(r, "topic") }

// possibleTopic reports whether any message can have this topic. The others are
// not worth a question, and some of them no database takes as text.
func possibleTopic(name string) bool {
	return utf8.ValidString(name) && !strings.ContainsRune(name, 0) && utf8.RuneCountInString(name) <= maxTopic
}

// segment returns a decoded part of the path; the router matched it encoded.
func segment(r *http.Request, name string) string {
	encoded := mux.Vars(r)[name]
	if text, err := url.PathUnescape(encoded); err == nil {
		return text
	}
	return encoded
}

// wellFormedQuery refuses a query of which net/url would drop what it does not
// understand: page 1 instead of the page that was meant.
func wellFormedQuery(r *http.Request) error {
	if _, err := url.ParseQuery(r.URL.RawQuery); err != nil {
		return &entity.FieldError{Field: "query", Reason: "must be name=value pairs joined by &, percent-encoded"}
	}
	return nil
}

// pageOf reads page and page_size and reports both when both are wrong.
func pageOf(r *http.Request) (repository.Page, error) {
	query := r.URL.Query()
	number, numberErr := intParameter(query, "page", 1, maxPage)
	size, sizeErr := intParameter(query, "page_size", defaultPageSize, maxPageSize)
	return repository.Page{Number: number, Size: size}, errors.Join(numberErr, sizeErr)
}

// intParameter reads a whole number from 1 to highest.
func intParameter(query url.Values, name string, missing, highest int) (int, error) {
	if !query.Has(name) {
		return missing, nil
	}
	if len(query[name]) > 1 {
		return 0, &entity.FieldError{Field: name, Reason: "given more than once"}
	}
	n, err := strconv.ParseUint(query.Get(name), 10, 32)
	if err != nil || n < 1 || n > uint64(highest) {
		return 0, &entity.FieldError{Field: name, Reason: fmt.Sprintf("must be a whole number from 1 to %d", highest)}
	}
	return int(n), nil
}
