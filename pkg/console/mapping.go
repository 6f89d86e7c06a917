package console

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

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

	Overtaken bool       // another person replaced the rules while Text was edited
	Changes   []diffLine // how Text would change their rules
}

// overtaken shows the rules of another author next to these, so that they are not replaced unnoticed.
func (p *mappingPage) overtaken(rules []mappingRule) {
	p.Overtaken = true
	p.Changes, _ = differenceOf(strings.TrimSpace(ruleLines(p.Rules)), strings.TrimSpace(ruleLines(rules)))
}

func (c *Console) showMapping(w http.ResponseWriter, r *http.Request) error {
	var m mapping
	if err := c.api.get(r, endpoint("mappings"), nil, &m); err != nil {
		return err
	}
	return c.renderMapping(w, r, http.StatusOK, mappingPage{mapping: m, Text: ruleLines(m.Rules), Apply: true}, nil)
}

func (c *Console) renderMapping(w http.ResponseWriter, r *http.Request, status int, data mappingPage, problem *failure) error {
	if v := viewerOf(r); !v.Everywhere("admin") {
		data.Why = "needs the role admin on all topics"
	}
	return c.render(w, r, status, "mapping", page{Title: "Topic mapping", Nav: "/topics", Problem: problem, Data: data})
}

func (c *Console) replaceMapping(w http.ResponseWriter, r *http.Request) error {
	version, err := strconv.ParseInt(r.PostFormValue("version"), 10, 64)
	if err != nil {
		return &apiError{Status: http.StatusBadRequest, Message: "version: must be a whole number"}
	}
	written := mappingPage{Text: r.PostFormValue("rules"), Apply: r.PostFormValue("apply") != ""}
	rules, bad := readRules(written.Text)
	if bad != nil {
		return c.mappingAgain(w, r, written, version, nil, bad)
	}
	body := reasoned(r)
	body["version"], body["rules"], body["apply"] = version, rules, written.Apply
	if err := c.api.send(r, http.MethodPut, endpoint("mappings"), body, nil); err != nil {
		return c.mappingAgain(w, r, written, version, rules, err)
	}
	return seeDone(w, r, "mapped", "/topics/mapping")
}

func (c *Console) mappingAgain(w http.ResponseWriter, r *http.Request, written mappingPage, version int64, rules []mappingRule, cause error) error {
	status, problem, err := problemOf(cause)
	if err != nil {
		return err
	}
	if err := c.api.get(r, endpoint("mappings"), nil, &written.mapping); err != nil {
		return err
	}
	if status == http.StatusConflict && written.Version != version {
		written.overtaken(rules) // the form carries the version that its sender sees now
	} else {
		written.Version = version
	}
	return c.renderMapping(w, r, status, written, problem)
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
			return nil, &apiError{
				Status: http.StatusBadRequest, Message: "line " + strconv.Itoa(i+1) + ": must be PATTERN " + arrow + " TOPIC",
			}
		}
		rules = append(rules, mappingRule{strings.TrimSpace(pattern), strings.TrimSpace(original)})
	}
	return rules, nil
}
