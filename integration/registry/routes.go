package registry

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// endpoint answers a request with a value or an error. The registry is locked while the endpoint runs.
type endpoint func(req *http.Request) (any, error)

func (r *Registry) newRoutes() *http.ServeMux {
	mux := http.NewServeMux()
	for pattern, answer := range map[string]endpoint{
		"GET /{$}":           r.root,
		"GET /schemas/types": r.types,

		"POST /subjects/{subject}/versions":                 r.register,
		"POST /subjects/{subject}":                          r.lookUp,
		"GET /subjects":                                     r.subjects,
		"GET /subjects/{subject}/versions":                  r.versions,
		"GET /subjects/{subject}/versions/{version}":        r.version,
		"GET /subjects/{subject}/versions/{version}/schema": r.versionText,
		"DELETE /subjects/{subject}":                        r.deleteSubject,
		"DELETE /subjects/{subject}/versions/{version}":     r.deleteVersion,

		"GET /schemas/ids/{id}":          r.schemaByID,
		"GET /schemas/ids/{id}/schema":   r.schemaText,
		"GET /schemas/ids/{id}/versions": r.schemaVersions,
		"GET /schemas/ids/{id}/subjects": r.schemaSubjects,
		"GET /schemas/guids/{guid}":      r.schemaByGUID,
		"GET /schemas/guids/{guid}/ids":  r.schemaIDs,

		"GET /config":           r.config,
		"GET /config/{subject}": r.subjectConfig,
		"PUT /config/{subject}": r.setSubjectConfig,
		"GET /mode":             r.mode,
		"/":                     r.unknown,
	} {
		mux.HandleFunc(pattern, r.locked(answer))
	}
	return mux
}

// locked makes a handler from an endpoint.
func (r *Registry) locked(answer endpoint) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		value, err := answer(req)
		r.mu.Unlock()
		if err != nil {
			writeError(w, err)
			return
		}
		write(w, http.StatusOK, value)
	}
}

func (r *Registry) root(*http.Request) (any, error) { return struct{}{}, nil }

func (r *Registry) types(*http.Request) (any, error) {
	return []string{kindJSON, kindProtobuf, kindAvro}, nil
}

func (r *Registry) mode(*http.Request) (any, error) {
	return map[string]string{"mode": "READWRITE"}, nil
}

func (r *Registry) unknown(*http.Request) (any, error) {
	return nil, failure(http.StatusNotFound, http.StatusNotFound, "HTTP 404 Not Found")
}

const defaultLevel = "BACKWARD"

func (r *Registry) config(*http.Request) (any, error) {
	return map[string]string{"compatibilityLevel": defaultLevel}, nil
}

func (r *Registry) subjectConfig(req *http.Request) (any, error) {
	subject := req.PathValue("subject")
	level, ok := r.store.levels[subject]
	if !ok && !flag(req, "defaultToGlobal") {
		return nil, failure(http.StatusNotFound, 40408,
			"Subject '%s' does not have subject-level compatibility configured", subject)
	}
	if !ok {
		level = defaultLevel
	}
	return map[string]string{"compatibilityLevel": level}, nil
}

// setSubjectConfig stores the compatibility level of a subject. The registry does not use it.
func (r *Registry) setSubjectConfig(req *http.Request) (any, error) {
	var body struct {
		Compatibility string `json:"compatibility"`
	}
	if err := json.NewDecoder(req.Body).Decode(&body); err != nil {
		return nil, failure(http.StatusBadRequest, http.StatusBadRequest, "%s", err)
	}
	if body.Compatibility == "" {
		return nil, failure(http.StatusUnprocessableEntity, 42203, "Invalid compatibility level")
	}
	r.store.levels[req.PathValue("subject")] = body.Compatibility
	return body, nil
}

// flag returns the value of a query parameter that is true or false. Python's client writes "True" and "False".
func flag(req *http.Request, name string) bool {
	on, err := strconv.ParseBool(strings.ToLower(req.URL.Query().Get(name)))
	return err == nil && on
}
