package message

import (
	"net/http"
	"net/url"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/diff"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/format"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/link"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/view"
)

// schemaLink names the schema with which a part of a message is encoded.
type schemaLink struct {
	api.SchemaReference
	Encoding string // name of the format
	URL      string // address of the page of the schema
}

// schemaOf returns the link to the schema of a part; nil for a part without a schema.
func schemaOf(ref api.MessageRef, encoding string, schema *api.SchemaReference, part string) *schemaLink {
	if schema == nil {
		return nil
	}
	return &schemaLink{*schema, encoding, link.To(ref.URL()+"/schema", "part", part)}
}

// Schema shows the schema of a payload or a key, and what the latest version changes.
type Schema struct {
	API      api.Client
	Renderer *view.Renderer
}

const maxSchema = 64 << 10 // bytes of a schema that are shown; the rest is cut off

type schemaPage struct {
	api.SchemaComparison
	api.MessageRef
	Part      string // value or key
	None      bool   // the part has no schema
	Text      string
	Clipped   bool
	Lines     []diff.Line // the changes of the latest version; empty when it has none
	SpaceOnly bool
}

// Show shows the schema of a message, live or archived.
func (s *Schema) Show(archived bool) view.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		ref, part := api.RefOf(r, archived), "value"
		if r.URL.Query().Get("part") == "key" {
			part = "key"
		}
		p := schemaPage{MessageRef: ref, Part: part}
		page := view.Page{Title: "Schema of message " + format.Short(ref.ID), Nav: ref.List(), Modules: []string{"message"}}
		status, err := http.StatusOK, s.API.Get(r, ref.Endpoint("schema"), url.Values{"part": {part}}, &p.SchemaComparison)
		if err != nil {
			if status, page.Problem, err = view.ProblemOf(err); err != nil {
				return err
			}
		} else {
			p.None = p.Format == ""
			p.compare()
		}
		page.Data = p
		return s.Renderer.Render(w, r, status, "schema", page)
	}
}

func (p *schemaPage) compare() {
	writer := laidOut(p.Writer)
	text, all := format.ClipBytes(writer, maxSchema)
	p.Text, p.Clipped = format.Visible(text), !all
	if p.Newest != "" && p.Newest != p.Writer {
		p.Lines, p.SpaceOnly = diff.Texts(p.Writer, p.Newest)
	}
}

// laidOut formats a schema that is JSON; a Protobuf schema and a long schema stay unchanged.
func laidOut(schema string) string {
	text, used, ok := format.JSON([]byte(schema), maxSchema)
	if !ok || used < len(schema) {
		return schema
	}
	return text
}
