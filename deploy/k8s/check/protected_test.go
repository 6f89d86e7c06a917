package check

import (
	"slices"
	"testing"
)

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

// In production a header alone decides nowhere where many records are sent.
func TestTheProductionOverlayTrustsDeclaredOriginsOnly(t *testing.T) {
	t.Parallel()
	set := render(t, loadTree(t), "overlays/prod")
	for _, name := range []string{"api", "ingester"} {
		pod := podOf(t, set, name)
		if trust := setting(set, pod, "kafka.origin_trust"); trust != "declared" {
			t.Errorf("kafka.origin_trust of %s is %q, want declared", name, trust)
		}
		if origins := setting(set, pod, "kafka.origins"); origins != `[{dlq: "*.dlq.v1", originals: ["$1.*"]}]` {
			t.Errorf("kafka.origins of %s are %q, want those of the naming convention", name, origins)
		}
	}
}

// inTheClear are the connections of a set's programs that are not encrypted.
func inTheClear(set *Set) []string {
	var plain []string
	for _, pod := range set.Pods() {
		if mode := setting(set, pod, "database.ssl_mode"); mode != "verify-full" || setting(set, pod, "database.ssl_root_cert") == "" {
			plain = append(plain, pod.Name+" to the database")
		}
		if protocol := setting(set, pod, "kafka.security_protocol"); !pod.Once && protocol != "SSL" && protocol != "SASL_SSL" {
			plain = append(plain, pod.Name+" to Kafka")
		}
	}
	slices.Sort(plain)
	return plain
}

func TestTheProductionOverlayEncrypts(t *testing.T) {
	t.Parallel()
	if got := inTheClear(render(t, loadTree(t), "overlays/prod")); len(got) > 0 {
		t.Errorf("got %q in the clear, want nothing", got)
	}
	for component, want := range map[string]int{"database-tls": 4, "kafka-sasl": 2} {
		tree := loadTree(t)
		change(t, tree, "/overlays/prod/kustomization.yaml", "  - ../../components/"+component+"\n", "")
		if got := inTheClear(render(t, tree, "overlays/prod")); len(got) != want {
			t.Errorf("without %s: got %q in the clear, want %d", component, got, want)
		}
	}
}
