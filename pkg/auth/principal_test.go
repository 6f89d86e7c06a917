package auth

import (
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

func grant(t *testing.T, role Role, topics ...string) Grant {
	t.Helper()
	g, err := GrantConfig{role, topics}.grant("test")
	check.NoError(t, err)
	return g
}

func TestRoles(t *testing.T) {
	t.Parallel()
	want := map[Role]string{
		Viewer: "viewer", Operator: "viewer operator", Admin: "viewer operator admin edit", Edit: "edit", Unmask: "unmask",
		"": "", "root": "",
	}
	for role, list := range want {
		got := ""
		for _, other := range Roles() {
			if role.Includes(other) {
				got += " " + string(other)
			}
		}
		if got != "" {
			got = got[1:]
		}
		check.True(t, got == list, "%q includes %q, want %q", role, got, list)
	}
}

func TestPrincipal(t *testing.T) {
	t.Parallel()
	orders, payments, unknown := "orders.events", "payments.events", ""
	for _, c := range []struct {
		name   string
		grants []Grant
		role   Role
		topic  string
		want   bool
	}{
		{"NobodyMayNothing", nil, Viewer, orders, false},
		{"OwnTopic", []Grant{grant(t, Viewer, "orders.*")}, Viewer, orders, true},
		{"OtherTopic", []Grant{grant(t, Viewer, "orders.*")}, Viewer, payments, false},
		{"HigherRole", []Grant{grant(t, Viewer, "orders.*")}, Operator, orders, false},
		{"LowerRole", []Grant{grant(t, Admin, "orders.*")}, Viewer, orders, true},
		{"AdminNeverUnmasks", []Grant{grant(t, Admin, "*")}, Unmask, orders, false},
		{"UnmaskIsNoView", []Grant{grant(t, Unmask, "*")}, Viewer, orders, false},
		{"EditIsNoRetry", []Grant{grant(t, Edit, "*")}, Operator, orders, false},
		{"StarIsEverything", []Grant{grant(t, Viewer, "*")}, Viewer, unknown, true},
		{"StarAmongOthersIsEverything", []Grant{grant(t, Viewer, "orders.*", "*")}, Viewer, unknown, true},
		{"PatternsNeverReachTheUnknown", []Grant{grant(t, Viewer, "^.*$")}, Viewer, unknown, false},
		{"GlobsNeverReachTheUnknown", []Grant{grant(t, Viewer, "**")}, Viewer, unknown, false},
		{"RolesOfDifferentTopicsDoNotMix", []Grant{grant(t, Viewer, "orders.*"), grant(t, Operator, "payments.*")}, Operator, orders, false},
	} {
		p := Principal{Name: "p", Grants: c.grants}
		if got := p.May(c.role, c.topic); got != c.want {
			t.Errorf("%s: May(%s, %q) = %t, want %t", c.name, c.role, c.topic, got, c.want)
		}
	}
}

// The roles on a message's original topic decide. Only while the original topic is unknown, the roles on its
// dead-letter topic decide.
func TestPrincipal_MayMessage(t *testing.T) {
	t.Parallel()
	m := func(original, source string) *entity.Message {
		m := &entity.Message{Source: entity.Source{Topic: source}}
		m.OriginalTopic = original
		return m
	}
	p := Principal{Grants: []Grant{grant(t, Viewer, "orders.*")}}
	all := Principal{Grants: []Grant{grant(t, Viewer, "*")}}
	for _, c := range []struct {
		m    *entity.Message
		want bool
	}{
		{m("orders.events", "shared.dlq"), true},
		{m("payments.events", "orders.dlq"), false},
		{m("", "orders.dlq"), true},
		{m("", "shared.dlq"), false},
		{m("", ""), false},
	} {
		if got := p.MayMessage(Viewer, c.m); got != c.want {
			t.Errorf("orders' viewer, original %q, dead-letter topic %q: got %t, want %t", c.m.OriginalTopic, c.m.Source.Topic, got, c.want)
		}
		if !all.MayMessage(Viewer, c.m) {
			t.Errorf("everything's viewer does not see %q of %q", c.m.OriginalTopic, c.m.Source.Topic)
		}
	}
}

func TestPrincipal_Scope(t *testing.T) {
	t.Parallel()
	p := Principal{Grants: []Grant{
		grant(t, Viewer, "a.*", "b"), grant(t, Operator, "c", "b"), grant(t, Unmask, "*"), grant(t, Edit, "d"),
	}}
	if got := p.Scope(Viewer).String(); got != "a.*, b, c" {
		t.Errorf("viewer's scope = %q, want that of every role that includes it", got)
	}
	if got := p.Scope(Operator).String(); got != "c, b" {
		t.Errorf("operator's scope = %q", got)
	}
	if got := p.Scope(Unmask); got != nil {
		t.Errorf("unmask's scope = %v, want nil: everything", got)
	}
	none := p.Scope(Admin)
	if none == nil || none.Match("a") || none.Match("") || len(none.Texts()) != 0 {
		t.Errorf("admin's scope = %v, want patterns that match nothing", none)
	}
	if p.Anywhere(Admin) || !p.Anywhere(Edit) || p.Everywhere(Viewer) || !p.Everywhere(Unmask) {
		t.Errorf("Anywhere or Everywhere is wrong for %+v", p)
	}
}
