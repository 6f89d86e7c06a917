package check

import (
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

// The patch that the documentation has for passwords from a Secret and a Kafka that asks
// for one makes a sound deployment, with KEDA too; without the patch it is none.
func TestThePlainSecretSignsInAsDocumented(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)  ```yaml\n(  components:\n    - ../../components/plain-secret\n.*?)  ```").FindStringSubmatch(string(raw))
	if found == nil {
		t.Fatal("the documentation shows no plain-secret with kafka-sasl")
	}
	shown := strings.ReplaceAll("\n"+found[1], "\n  ", "\n")
	unpatched, _, _ := strings.Cut(shown, "patches:")
	for name, overlay := range map[string]struct {
		text string
		want string
	}{
		"shown":     {shown, ""},
		"with KEDA": {strings.ReplaceAll(shown, "kafka-sasl", "keda-sasl"), ""},
		"unpatched": {unpatched, "DLQ_KAFKA_SASL_USERNAME_FILE names /vault/secrets/kafka-username, which no Secret holds"},
	} {
		tree := loadTree(t)
		text := "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [../../base]" + overlay.text
		dir := path.Join("with", "readme")
		if err := tree.WriteFile(path.Join("/", dir, "kustomization.yaml"), []byte(text)); err != nil {
			t.Fatal(err)
		}
		got := said(tree, dir)
		if overlay.want == "" && got != "" || !strings.Contains(got, overlay.want) {
			t.Errorf("%s: got %q, want %q", name, got, overlay.want)
		}
	}
}
