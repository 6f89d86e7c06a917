package console

import (
	"errors"
	"net/http"
	"slices"

	"go.uber.org/zap"
)

type failure struct {
	Title     string
	Message   string
	RequestID string
	Fields    []fieldProblem
	Again     bool // trying again may help
}

type fieldProblem struct{ Field, Reason string }

func (c *Console) fail(w http.ResponseWriter, r *http.Request, err error) {
	status, shown := describe(err)
	if tokenRefused(err) {
		if sessionOf(r).token != "" && len(r.Header.Values("Authorization")) == 0 {
			dropSession(w) // it would be refused again, and count as a failed attempt
		}
		c.askWhoTheyAre(w, r)
		return
	}
	if status == http.StatusInternalServerError {
		c.logger.Error("cannot render a page", zap.String("path", r.URL.Path),
			zap.String("request_id", r.Header.Get("X-Request-Id")), zap.Error(err))
	}
	var refused *apiError
	if errors.As(err, &refused) && refused.after != "" {
		w.Header().Set("Retry-After", refused.after)
	}
	if shown.RequestID == "" {
		shown.RequestID = r.Header.Get("X-Request-Id")
	}
	if err := c.render(w, r, status, "error", page{Title: shown.Title, Data: shown}); err != nil {
		c.logger.Error("cannot render the error page", zap.Error(err))
		http.Error(w, shown.Message, status)
	}
}

func describe(err error) (int, failure) {
	var refused *apiError
	if errors.As(err, &refused) {
		return refused.Status, refused.shown()
	}
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return http.StatusRequestEntityTooLarge, failure{Title: "Too large", Message: "The form is too large to be sent."}
	}
	return http.StatusInternalServerError, failure{Title: "Internal error", Message: "This is an error of dlq-manager; its log has the cause under the request id.", Again: true}
}

var titles = map[int]string{
	http.StatusBadRequest:            "Invalid request",
	http.StatusForbidden:             "Not allowed",
	http.StatusNotFound:              "Not found",
	http.StatusConflict:              "Not possible now",
	http.StatusRequestEntityTooLarge: "Too large",
	http.StatusTooManyRequests:       "Too many requests",
	http.StatusBadGateway:            "The broker refused",
	http.StatusServiceUnavailable:    "Not available at the moment",
}

func (e *apiError) shown() failure {
	again := e.Status >= http.StatusInternalServerError || e.Status == http.StatusTooManyRequests
	f := failure{Title: titles[e.Status], Message: e.Message, RequestID: e.RequestID, Again: again}
	switch {
	case e.needsDatabase():
		f.Title, f.Again = "Needs a database", false
	case f.Title == "":
		f.Title = "Internal error"
	}
	for _, d := range e.Details {
		field, _ := d["field"].(string)
		reason, _ := d["reason"].(string)
		if reason != "" && reason != e.Message && field+": "+reason != e.Message {
			f.Fields = append(f.Fields, fieldProblem{field, reason})
		}
	}
	return f
}

// needsDatabase reports whether the answer needs a database and the program has none.
func (e *apiError) needsDatabase() bool {
	return e.Status == http.StatusServiceUnavailable && slices.ContainsFunc(e.Details, func(d map[string]any) bool { return d["field"] == "database" })
}

// problemOf returns the status and the description of an error of the API that a page can show, or the error itself.
func problemOf(err error) (int, *failure, error) {
	var refused *apiError
	if !errors.As(err, &refused) || refused.Status == http.StatusUnauthorized {
		return 0, nil, err
	}
	f := refused.shown()
	return refused.Status, &f, nil
}
