package admin

import (
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/diff"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/format"
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
	Redrives []string         `json:"redrives"`
	Preview  []mappingPreview `json:"preview"`
}

// mappingPreview counts the stored messages of a dead-letter topic that the rules would change.
type mappingPreview struct {
	DLQTopic string           `json:"dlq_topic"`
	Original string           `json:"original"`
	Selected int64            `json:"selected"`
	Sendable int64            `json:"sendable"`
	Reasons  map[string]int64 `json:"reasons"`
}

type mappingRule struct {
	Pattern  string `json:"pattern"`
	Original string `json:"original"`
}

type mappingPage struct {
	mapping
	Text   string // one rule per line, for the form
	Apply  bool
	Reason string
	Why    string // the reason for which the viewer cannot replace the rules; "": the viewer can

	Looked  string      // identifies the previewed rules; "": there is no preview
	Added   []diff.Line // how the previewed rules differ from the current ones
	Started []string    // redrives that the last change started

	Overtaken bool        // another user replaced the rules while this user edited Text
	Changes   []diff.Line // how Text would change the rules that the other user has saved
}

// overtaken handles the case that another user saved rules while this user edited theirs. The page then shows how the
// typed rules differ from the saved rules, so that these are not replaced unnoticed.
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
	data := mappingPage{mapping: current, Text: ruleLines(current.Rules), Apply: true}
	shown := view.Page{Title: "Topic mapping", Nav: link.Topics}
	for _, id := range r.URL.Query()["redrive"] {
		if _, err := uuid.Parse(id); err == nil {
			data.Started = append(data.Started, id)
		}
	}
	if d := view.DraftOf(r); d.Sent() {
		data.typed(r)
		if d.Problem == nil {
			if err := m.preview(r, &data); err != nil {
				var other error
				if _, shown.Problem, other = view.ProblemOf(err); other != nil {
					return other
				}
			}
		}
	}
	if v := session.ViewerOf(r); !v.Everywhere("admin") {
		data.Why = "needs the role admin on all topics"
	}
	shown.Data = data
	return m.Renderer.Render(w, r, http.StatusOK, "mapping", shown)
}

// preview asks for a dry run of the rules as typed.
func (m *Mapping) preview(r *http.Request, data *mappingPage) error {
	rules, lines, err := readRules(data.Text)
	if err != nil {
		return err
	}
	var answer mapping
	body := map[string]any{"version": data.Version, "rules": rules, "dry_run": true}
	if err := m.API.Send(api.WithoutKey(r), http.MethodPut, api.Endpoint("mappings"), body, &answer); err != nil {
		return byLine(err, lines)
	}
	data.Preview, data.Looked = answer.Preview, looked(data.Version, data.Text)
	data.Added, _ = diff.Texts(strings.TrimSpace(ruleLines(data.Rules)), strings.TrimSpace(ruleLines(rules)))
	return nil
}

// looked returns a hash of the rules in a form and of the version that they replace. It identifies what a preview has
// shown.
func looked(version int64, text string) string {
	return format.Digest(strconv.FormatInt(version, 10) + "\n" + strings.ReplaceAll(text, "\r\n", "\n"))
}

var ruleNumber = regexp.MustCompile(`rules\[(\d+)\](\.?)`)

// byLine replaces the number of a rule in an error by the number of the rule's line in the form.
func byLine(err error, lines []int) error {
	var refused *api.Error
	if !errors.As(err, &refused) {
		return err
	}
	named := func(text string) string {
		return ruleNumber.ReplaceAllStringFunc(text, func(found string) string {
			parts := ruleNumber.FindStringSubmatch(found)
			n, _ := strconv.Atoi(parts[1])
			if n >= len(lines) {
				return found
			}
			return "line " + strconv.Itoa(lines[n]) + strings.Replace(parts[2], ".", ", ", 1)
		})
	}
	shown := *refused
	shown.Message, shown.Details = named(shown.Message), nil
	for _, d := range refused.Details {
		field, _ := d["field"].(string)
		shown.Details = append(shown.Details, map[string]any{"field": named(field), "reason": d["reason"]})
	}
	return &shown
}

// typed fills the form with the rules as the user typed them. The form then replaces the version of the rules that the
// page now shows.
func (p *mappingPage) typed(r *http.Request) {
	p.Text, p.Apply, p.Reason = r.PostFormValue("rules"), r.PostFormValue("apply") != "", request.Text(r, "reason")
	rules, _, err := readRules(p.Text)
	if r.PostFormValue("version") != strconv.FormatInt(p.Version, 10) && err == nil {
		p.overtaken(rules)
	}
}

// Replace replaces the rules by the rules in the form, unless another user has replaced them meanwhile. The user must
// see a preview first: if these rules were not previewed, Replace changes nothing and shows their preview.
func (m *Mapping) Replace(w http.ResponseWriter, r *http.Request) error {
	version, err := strconv.ParseInt(r.PostFormValue("version"), 10, 64)
	if err != nil {
		return &api.Error{Status: http.StatusBadRequest, Message: "version: must be a whole number"}
	}
	rules, lines, err := readRules(r.PostFormValue("rules"))
	if err == nil && (r.PostFormValue("do") != "replace" || r.PostFormValue("looked") != looked(version, r.PostFormValue("rules"))) {
		return m.Renderer.ShowAgain(w, r, nil)
	}
	var changed mapping
	if err == nil {
		body := request.Body(r)
		body["version"], body["rules"], body["apply"] = version, rules, r.PostFormValue("apply") != ""
		err = m.API.Send(r, http.MethodPut, api.Endpoint("mappings"), body, &changed)
	}
	if err != nil {
		return view.Answered(byLine(err, lines), func(problem *view.Problem) error { return m.Renderer.ShowAgain(w, r, problem) })
	}
	return view.RedirectDone(w, r, "mapped", link.WithQuery(link.Mapping, url.Values{"redrive": changed.Redrives}))
}

const arrow = "->"

func ruleLines(rules []mappingRule) string {
	var b strings.Builder
	for _, rule := range rules {
		b.WriteString(rule.Pattern + " " + arrow + " " + rule.Original + "\n")
	}
	return b.String()
}

// readRules reads one rule per line, and ignores empty lines. It also returns the number of each rule's line, from 1
// on.
func readRules(text string) (rules []mappingRule, lines []int, err error) {
	rules = []mappingRule{}
	for i, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		pattern, original, ok := strings.Cut(line, arrow)
		if !ok {
			return nil, nil, &api.Error{
				Status: http.StatusBadRequest, Message: "line " + strconv.Itoa(i+1) + ": must be PATTERN " + arrow + " TOPIC",
			}
		}
		rules = append(rules, mappingRule{strings.TrimSpace(pattern), strings.TrimSpace(original)})
		lines = append(lines, i+1)
	}
	return rules, lines, nil
}
