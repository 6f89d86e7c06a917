package check

import (
	"fmt"
	"testing"
)

// Who may connect where, with everything that is optional left out and with each
// option.
func TestEgress(t *testing.T) {
	t.Parallel()
	for component, want := range map[string]map[string]string{
		"keda": {
			"api": "[53 443 5432 8200 9092 9093]", "ingester": "[53 5432 8200 9092 9093]",
			"archiver": "[53 5432 8200]", "migrate": "[53 5432 8200]",
		},
		"tracing": {
			"api": "[53 443 4318 5432 8200 9092 9093]", "ingester": "[53 4318 5432 8200 9092 9093]",
			"archiver": "[53 5432 8200]", "migrate": "[53 5432 8200]",
		},
		"notifications": {
			"api": "[53 443 5432 8200 9092 9093]", "ingester": "[53 5432 8200 9092 9093]",
		},
		"plain-secret": {
			"api": "[53 443 5432 9092 9093]", "ingester": "[53 5432 9092 9093]",
			"archiver": "[53 5432]", "migrate": "[53 5432]",
		},
	} {
		t.Run(component, func(t *testing.T) {
			t.Parallel()
			set := renderWith(t, component)
			for name, ports := range want {
				got, restricted := Egress(set, podOf(t, set, name))
				if !restricted || fmt.Sprint(got) != ports {
					t.Errorf("%s: got %v, want %s", name, got, ports)
				}
			}
		})
	}
}
