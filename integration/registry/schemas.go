package registry

import (
	"net/http"
	"slices"
)

// description is the registry's answer that describes a schema. For an Avro schema, schemaType is missing, as in
// Confluent's registry.
type description struct {
	Subject    string      `json:"subject,omitempty"`
	Version    int         `json:"version,omitempty"`
	ID         int         `json:"id,omitempty"`
	GUID       string      `json:"guid"`
	SchemaType string      `json:"schemaType,omitempty"`
	References []reference `json:"references,omitempty"`
	Schema     string      `json:"schema"`
}

func (r *Registry) describe(req *http.Request, s *schema) (description, error) {
	text, err := r.textOf(req, s)
	answer := description{GUID: s.guid, SchemaType: s.kind, References: s.references, Schema: text}
	if s.kind == kindAvro {
		answer.SchemaType = ""
	}
	return answer, err
}

// textOf returns the text of a schema in the format that the request asks for.
func (r *Registry) textOf(req *http.Request, s *schema) (string, error) {
	if s.kind == kindProtobuf && req.URL.Query().Get("format") == "serialized" {
		return r.store.serialize(s)
	}
	return s.text, nil
}

func (r *Registry) schemaByID(req *http.Request) (any, error) {
	s, err := r.store.byID(req.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return r.describe(req, s)
}

func (r *Registry) schemaText(req *http.Request) (any, error) {
	s, err := r.store.byID(req.PathValue("id"))
	if err != nil {
		return nil, err
	}
	text, err := r.textOf(req, s)
	return plain(text), err
}

func (r *Registry) schemaVersions(req *http.Request) (any, error) {
	s, err := r.store.byID(req.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return r.store.uses(s, flag(req, "deleted")), nil
}

func (r *Registry) schemaSubjects(req *http.Request) (any, error) {
	s, err := r.store.byID(req.PathValue("id"))
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, u := range r.store.uses(s, flag(req, "deleted")) {
		names = append(names, u.Subject)
	}
	return slices.Compact(names), nil
}

func (r *Registry) schemaByGUID(req *http.Request) (any, error) {
	s, err := r.store.byGUID(req.PathValue("guid"))
	if err != nil {
		return nil, err
	}
	return r.describe(req, s)
}

// contextID is the id of a schema in a context. The registry supports only the default context.
type contextID struct {
	Context string `json:"context"`
	ID      int    `json:"id"`
}

func (r *Registry) schemaIDs(req *http.Request) (any, error) {
	s, err := r.store.byGUID(req.PathValue("guid"))
	if err != nil {
		return nil, err
	}
	return []contextID{{Context: ".", ID: s.id}}, nil
}
