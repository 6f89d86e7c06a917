package session

import "testing"

func TestViewerMay(t *testing.T) {
	t.Parallel()
	v := &Viewer{Grants: []Grant{{Role: "operator", Topics: []string{"orders.*"}}, {Role: "viewer", Topics: []string{"^pay.+$"}}, {Role: "unmask", Topics: []string{"*"}}}}
	for _, c := range []struct {
		role   string
		topics []string
		want   bool
	}{
		{"operator", nil, true},
		{"operator", []string{"orders.v1"}, true},
		{"viewer", []string{"orders.v1"}, true},
		{"operator", []string{"orders."}, false},
		{"operator", []string{"xorders.v1"}, false},
		{"operator", []string{"payments"}, false},
		{"viewer", []string{"payments", "orders.v1"}, true},
		{"viewer", []string{"payments", "users"}, false},
		{"admin", nil, false},
		{"viewer", []string{""}, false},
		{"unmask", []string{""}, true},
	} {
		if got := v.May(c.role, c.topics...); got != c.want {
			t.Errorf("%s on %q: got %t, want %t", c.role, c.topics, got, c.want)
		}
	}
	if (*Viewer)(nil).May("viewer") {
		t.Error("got a request without a Viewer allowed, want it refused")
	}
}
