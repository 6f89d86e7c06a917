package check

import (
	"slices"
	"testing"
)

// Who may connect where, with each option: what a component opens is all that it opens.
func TestEgress(t *testing.T) {
	t.Parallel()
	base := []string{names, namesByUDP, database}
	serving := slices.Concat(base, []string{kafka, kafkaTLS})
	withVault := func(more ...string) []string { return slices.Concat(serving, []string{vaultServer}, more) }
	once := slices.Concat(base, []string{vaultServer})
	for component, want := range map[string]map[string][]string{
		"keda":          {"api": withVault(issuer), "ingester": withVault(), "archiver": once, "migrate": once},
		"tracing":       {"api": withVault(issuer, collector), "ingester": withVault(collector), "archiver": once},
		"notifications": {"api": withVault(issuer, receivers), "ingester": withVault()},
		"plain-secret":  {"api": slices.Concat(serving, []string{issuer}), "ingester": serving, "archiver": base, "migrate": base},
	} {
		t.Run(component, func(t *testing.T) {
			t.Parallel()
			set := renderWith(t, component)
			for name, ways := range want {
				got, restricted := Egress(set, podOf(t, set, name))
				if want := slices.Sorted(slices.Values(ways)); !restricted || !slices.Equal(got, want) {
					t.Errorf("%s: got %q, want %q", name, got, want)
				}
			}
		})
	}
}

// Who comes in: clients and the monitoring, to what serves; nobody else, to nobody else.
func TestIngress(t *testing.T) {
	t.Parallel()
	set := render(t, loadTree(t), "base")
	for name, want := range map[string][]string{
		"api": {scraper, clients}, "ingester": {scraper}, "archiver": nil, "migrate": nil,
	} {
		got, restricted := Ingress(set, podOf(t, set, name))
		if !restricted || !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// In production clients of the API reach no metrics, and Prometheus no API; probes stay
// where the API is.
func TestTheProductionOverlayKeepsMetricsApart(t *testing.T) {
	t.Parallel()
	set := render(t, loadTree(t), "overlays/prod")
	apart := prometheus + "9090"
	for name, want := range map[string][]string{"api": {apart, clients}, "ingester": {apart}} {
		pod := podOf(t, set, name)
		if got, _ := Ingress(set, pod); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
		if probe := pod.Template.Spec.Containers[0].ReadinessProbe.HTTPGet; probe.Port.String() != "http" {
			t.Errorf("%s is probed on port %s, want http", name, probe.Port.String())
		}
	}
}
