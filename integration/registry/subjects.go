package registry

import (
	"encoding/json"
	"net/http"
	"strings"
)

// maxBody is the maximum size of the body of a request, in bytes. A larger body is refused.
const maxBody = 16 << 20

// submission is the body of a request that registers or looks up a schema.
type submission struct {
	Schema     string      `json:"schema"`
	SchemaType string      `json:"schemaType"`
	References []reference `json:"references"`
}

func (r *Registry) register(req *http.Request) (any, error) {
	candidate, err := r.candidate(req)
	if err != nil {
		return nil, err
	}
	v := r.store.register(req.PathValue("subject"), candidate)
	return registered{ID: v.schema.id, Version: v.number, GUID: v.schema.guid}, nil
}

// registered is the answer to a registration. A serializer that names the schema in a header reads the GUID from this
// answer.
type registered struct {
	ID      int    `json:"id"`
	Version int    `json:"version"`
	GUID    string `json:"guid"`
}

func (r *Registry) lookUp(req *http.Request) (any, error) {
	subject, deleted := req.PathValue("subject"), flag(req, "deleted")
	if len(r.store.versions(subject, deleted)) == 0 {
		return nil, noSubject(subject)
	}
	candidate, err := r.candidate(req)
	if err != nil {
		return nil, err
	}
	v := r.store.find(subject, candidate.key, deleted)
	if v == nil {
		return nil, noSchema()
	}
	return r.describeVersion(req, v)
}

// candidate reads the schema in the body of a request and checks it.
func (r *Registry) candidate(req *http.Request) (schema, error) {
	var body submission
	if err := json.NewDecoder(http.MaxBytesReader(nil, req.Body, maxBody)).Decode(&body); err != nil {
		return schema{}, failure(http.StatusBadRequest, http.StatusBadRequest, "%s", err)
	}
	return r.store.parse(body, flag(req, "normalize"))
}

func (r *Registry) subjects(req *http.Request) (any, error) {
	prefix, names := req.URL.Query().Get("subjectPrefix"), []string{}
	for _, name := range r.store.names(flag(req, "deleted")) {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	return names, nil
}

func (r *Registry) versions(req *http.Request) (any, error) {
	subject := req.PathValue("subject")
	var numbers []int
	for _, v := range r.store.versions(subject, flag(req, "deleted")) {
		numbers = append(numbers, v.number)
	}
	if numbers == nil {
		return nil, noSubject(subject)
	}
	return numbers, nil
}

func (r *Registry) version(req *http.Request) (any, error) {
	v, err := r.versionOf(req)
	if err != nil {
		return nil, err
	}
	return r.describeVersion(req, v)
}

func (r *Registry) versionText(req *http.Request) (any, error) {
	v, err := r.versionOf(req)
	if err != nil {
		return nil, err
	}
	text, err := r.textOf(req, v.schema)
	return plain(text), err
}

func (r *Registry) versionOf(req *http.Request) (*version, error) {
	return r.store.version(req.PathValue("subject"), req.PathValue("version"), flag(req, "deleted"))
}

func (r *Registry) deleteSubject(req *http.Request) (any, error) {
	return r.store.deleteSubject(req.PathValue("subject"), flag(req, "permanent"))
}

func (r *Registry) deleteVersion(req *http.Request) (any, error) {
	return r.store.deleteVersion(req.PathValue("subject"), req.PathValue("version"), flag(req, "permanent"))
}

// describeVersion returns the answer that describes a version of the subject in the path.
func (r *Registry) describeVersion(req *http.Request, v *version) (any, error) {
	answer, err := r.describe(req, v.schema)
	answer.Subject, answer.Version, answer.ID = req.PathValue("subject"), v.number, v.schema.id
	return answer, err
}
