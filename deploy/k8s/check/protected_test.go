package check

import "testing"

// The production overlay is a production, so that the rule about its auth.mode
// holds for it, and nobody gets in unasked.
func TestTheProductionOverlayAsksWhoOneIs(t *testing.T) {
	t.Parallel()
	got := configuration(t, render(t, loadTree(t), "overlays/prod"))
	if environment := got["app"]["environment"]; environment != "production" {
		t.Errorf("app.environment is %v, want production", environment)
	}
	if mode := got["auth"]["mode"]; mode != "oidc" && mode != "token" {
		t.Errorf("auth.mode is %v, want oidc or token", mode)
	}
}
