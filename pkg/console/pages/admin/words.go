package admin

import (
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/format"
)

// change is a change of the audit trail as the page shows it.
type change struct{ api.Change }

// Machine reports whether the program made the change.
func (c change) Machine() bool { return c.ActorKind == "machine" }

// For returns the person on whose order the program made the change; "" for none.
func (c change) For() string {
	if programs[c.Actor] {
		return ""
	}
	return c.Actor
}

var programs = map[string]bool{"settler": true, "auto": true, "ingest": true, "heartbeat": true}

// More returns the number of audit entries of the request, or "more than 1,000".
func (c change) More() string {
	if c.Entries > 1000 {
		return "more than 1,000 entries"
	}
	return format.Plural(int64(c.Entries), "entry", "entries")
}

// nouns names the objects of changes by their kind.
var nouns = map[string]string{
	"message": "a message", "redrive": "a redrive", "group": "an error group", "mapping": "the topic mapping",
	"list": "a list", "quarantine": "a quarantined record",
	"view": "a shared view", "redirect": "a redirect",
}

// verbs holds, for each action, the words that describe it: those before the noun of the changed object, and those
// after it.
var verbs = map[string][2]string{
	"retry": {"retried"}, "attempt": {"ended an attempt of"}, "requeue": {"requeued"}, "dead": {"marked", "dead"},
	"delete": {"deleted"}, "map": {"set the original topic of"}, "restore": {"restored"}, "erase": {"erased"}, "unmask": {"saw masked values of"},
	"read_pointer": {"read the record of"}, "accept_envelope": {"accepted the envelope of"}, "create": {"started"}, "pass": {"passed the canary of"}, "pause": {"paused"},
	"continue": {"ended a wait of"},
	"resume":   {"resumed"}, "cancel": {"cancelled"}, "stop": {"stopped"}, "finish": {"finished"}, "annotate": {"annotated"},
	"replace": {"replaced"}, "save": {"saved"}, "redirect": {"set"},
}

// Did describes the change in words, such as "marked 2 messages dead".
func (c change) Did() string {
	action, noun := c.Action, nouns[c.Kind]
	if c.Redrive != nil {
		action, noun = c.Redrive.Action, format.Plural(c.Redrive.Selected, "message", "messages")
	}
	words, known := verbs[action]
	if !known || noun == "" {
		return c.Action + " " + c.Kind
	}
	text := words[0] + " " + noun
	if words[1] != "" {
		text += " " + words[1]
	}
	return text
}
