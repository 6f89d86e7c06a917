package view

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
)

// Problem describes in words why a request failed, or what is wrong with it.
type Problem struct {
	Title     string
	Message   string
	RequestID string
	Fields    []FieldProblem
	Again     bool // the user may succeed by sending the request again
	// InDoubt means that it is not known whether the API carried out the request. If the user sends it again with the
	// same idempotency key, the API carries it out only once.
	InDoubt bool
}

// FieldProblem says what is wrong with a field of a form, or of a request to the API.
type FieldProblem struct{ Field, Reason string }

// Describe returns the status of an error and its description.
func Describe(err error) (int, Problem) {
	var refused *api.Error
	if errors.As(err, &refused) {
		return refused.Status, described(refused)
	}
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return http.StatusRequestEntityTooLarge, Problem{Title: "Too large", Message: "The form is too large to be sent."}
	}
	return http.StatusInternalServerError, Problem{Title: "Internal error", Message: "This is an error of dlq-manager; its log has the cause under the request id.", Again: true, InDoubt: true}
}

var titles = map[int]string{
	http.StatusBadRequest:            "Invalid request",
	http.StatusForbidden:             "Not allowed",
	http.StatusNotFound:              "Not found",
	http.StatusMethodNotAllowed:      "Not possible",
	http.StatusConflict:              "Not possible now",
	http.StatusPreconditionFailed:    "Changed by another user",
	http.StatusRequestEntityTooLarge: "Too large",
	http.StatusTooManyRequests:       "Too many requests",
	http.StatusBadGateway:            "The broker refused",
	http.StatusServiceUnavailable:    "Not available at the moment",
}

func described(e *api.Error) Problem {
	again := e.Status >= http.StatusInternalServerError || e.Status == http.StatusTooManyRequests
	f := Problem{Title: titles[e.Status], Message: e.Message, RequestID: e.RequestID, Again: again}
	// A response 502 tells the result: the attempt has failed.
	f.InDoubt = e.Status >= http.StatusInternalServerError && e.Status != http.StatusBadGateway
	switch {
	case NeedsDatabase(e):
		f.Title, f.Again = "Needs a database", false
	case isAbout(e, "Idempotency-Key"):
		f.Message = "The form was sent before with other values, and it is not known whether that was carried out. Check it, then send the form again."
	case f.Title == "":
		f.Title = "Internal error"
	}
	for _, d := range e.Details {
		field, _ := d["field"].(string)
		reason, _ := d["reason"].(string)
		if reason != "" && reason != e.Message && field+": "+reason != e.Message {
			f.Fields = append(f.Fields, FieldProblem{field, reason})
		}
	}
	return f
}

// NeedsDatabase reports whether the answer needs a database and the program has none.
func NeedsDatabase(e *api.Error) bool {
	return e.Status == http.StatusServiceUnavailable && isAbout(e, "database")
}

func isAbout(e *api.Error, field string) bool {
	return slices.ContainsFunc(e.Details, func(d map[string]any) bool { return d["field"] == field })
}

// ProblemOf returns the status and the description of an API error that a page can show. It returns every other error
// unchanged, including 401, after which the user must sign in.
func ProblemOf(err error) (int, *Problem, error) {
	var refused *api.Error
	if !errors.As(err, &refused) || refused.Status == http.StatusUnauthorized {
		return 0, nil, err
	}
	f := described(refused)
	return refused.Status, &f, nil
}

// Answered handles an error of the API: it passes the description to the function show, which answers the request. It
// returns every other error.
func Answered(err error, show func(problem *Problem) error) error {
	_, problem, err := ProblemOf(err)
	if err != nil {
		return err
	}
	return show(problem)
}

// NewProblem returns a problem with the title of a status.
func NewProblem(status int, message string, fields ...FieldProblem) *Problem {
	return &Problem{Title: titles[status], Message: message, Fields: fields}
}

// ByField returns the reasons of the problem, each under the name of its field; none for a nil problem.
func (f *Problem) ByField() map[string]string {
	wrong := map[string]string{}
	if f == nil {
		return wrong
	}
	for _, p := range f.Fields {
		wrong[p.Field] = p.Reason
	}
	if field, reason, named := strings.Cut(f.Message, ": "); named {
		wrong[field] = reason
	}
	return wrong
}

// Without returns the problem without the reasons for the named fields, because the form shows these reasons next to
// the fields.
func (f *Problem) Without(names []string) *Problem {
	if f == nil {
		return nil
	}
	rest := *f
	if field, _, named := strings.Cut(f.Message, ": "); named && slices.Contains(names, field) {
		rest.Message = "Correct the fields marked below."
	}
	rest.Fields = slices.DeleteFunc(slices.Clone(f.Fields), func(p FieldProblem) bool { return slices.Contains(names, p.Field) })
	return &rest
}
