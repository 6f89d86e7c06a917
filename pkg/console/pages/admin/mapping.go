package admin

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/diff"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/link"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/request"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/session"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/view"
)

// Mapping is the page of the rules that map dead-letter topics to original topics.
type Mapping struct {
	API      api.Client
	Renderer *view.Renderer
}

type mapping struct {
	Version    int64         `json:"version"`
	UpdatedAt  time.Time     `json:"updated_at"`
	UpdatedBy  string        `json:"updated_by"`
	Rules      []mappingRule `json:"rules"`
	Configured []mappingRule `json:"configured"`
	Unmapped   []struct {
		DLQTopic string `json:"dlq_topic"`
		Messages int64  `json:"messages"`
		Original string `json:"original"`
	} `json:"unmapped"`
	Redrives []string `json:"redrives"`
}

type mappingRule struct {
	Pattern  string `json:"pattern"`
	Original string `json:"original"`
}

type mappingPage struct {
	mapping
	Text  string // one rule per line, for the form
	Apply bool
	Why   string // the reason for which the rules cannot be replaced; empty: they can

	Overtaken bool        // another person replaced the rules while Text was edited
	Changes   []diff.Line // how Text would change their rules
}

// overtaken shows the rules of another author next to these, so that they are not replaced unnoticed.
func (p *mappingPage) overtaken(rules []mappingRule) {
	p.Overtaken = true
	p.Changes, _ = diff.Texts(strings.TrimSpace(ruleLines(p.Rules)), strings.TrimSpace(ruleLines(rules)))
}

// Show shows the rules in a form.
func (m *Mapping) Show(w http.ResponseWriter, r *http.Request) error {
	var current mapping
	if err := m.API.Get(r, api.Endpoint("mappings"), nil, &current); err != nil {
		return err
	}
	return m.render(w, r, http.StatusOK, mappingPage{mapping: current, Text: ruleLines(current.Rules), Apply: true}, nil)
}

func (m *Mapping) render(w http.ResponseWriter, r *http.Request, status int, data mappingPage, problem *view.Problem) error {
	if v := session.ViewerOf(r); !v.Everywhere("admin") {
		data.Why = "needs the role admin on all topics"
	}
	return m.Renderer.Render(w, r, status, "mapping", view.Page{Title: "Topic mapping", Nav: link.Topics, Problem: problem, Data: data})
}

// Replace replaces the rules by those of the form, unless another user has replaced them meanwhile.
func (m *Mapping) Replace(w http.ResponseWriter, r *http.Request) error {
	version, err := strconv.ParseInt(r.PostFormValue("version"), 10, 64)
	if err != nil {
		return &api.Error{Status: http.StatusBadRequest, Message: "version: must be a whole number"}
	}
	written := mappingPage{Text: r.PostFormValue("rules"), Apply: r.PostFormValue("apply") != ""}
	rules, bad := readRules(written.Text)
	if bad != nil {
		return m.showAgain(w, r, written, version, nil, bad)
	}
	body := request.Body(r)
	body["version"], body["rules"], body["apply"] = version, rules, written.Apply
	if err := m.API.Send(r, http.MethodPut, api.Endpoint("mappings"), body, nil); err != nil {
		return m.showAgain(w, r, written, version, rules, err)
	}
	return view.RedirectDone(w, r, "mapped", link.Mapping)
}

func (m *Mapping) showAgain(w http.ResponseWriter, r *http.Request, written mappingPage, version int64, rules []mappingRule, cause error) error {
	status, problem, err := view.ProblemOf(cause)
	if err != nil {
		return err
	}
	if err := m.API.Get(r, api.Endpoint("mappings"), nil, &written.mapping); err != nil {
		return err
	}
	if status == http.StatusConflict && written.Version != version {
		written.overtaken(rules) // the form carries the version that its sender sees now
	} else {
		written.Version = version
	}
	return m.render(w, r, status, written, problem)
}

const arrow = "->"

func ruleLines(rules []mappingRule) string {
	var b strings.Builder
	for _, rule := range rules {
		b.WriteString(rule.Pattern + " " + arrow + " " + rule.Original + "\n")
	}
	return b.String()
}

// readRules reads one rule per line, and ignores empty lines.
func readRules(text string) ([]mappingRule, error) {
	rules := []mappingRule{}
	for i, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		pattern, original, ok := strings.Cut(line, arrow)
		if !ok {
			return nil, &api.Error{
				Status: http.StatusBadRequest, Message: "line " + strconv.Itoa(i+1) + ": must be PATTERN " + arrow + " TOPIC",
			}
		}
		rules = append(rules, mappingRule{strings.TrimSpace(pattern), strings.TrimSpace(original)})
	}
	return rules, nil
}
