package check

import (
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/kyaml/filesys"
)

const someDigest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// What counts as pinned: a digest is the image itself; a full version is what a registry
// that does not let tags move will always answer with the same.
func TestPinned(t *testing.T) {
	t.Parallel()
	for reference, want := range map[string]bool{
		image + ":0.1.0":                        true,
		image + ":v0.1":                         true,
		image + ":0.1.0-rc.1":                   true,
		image + "@" + someDigest:                true,
		image + ":0.1.0@" + someDigest:          true,
		image + ":main@" + someDigest:           true,
		image + ":0.1.0@" + someDigest[:40]:     false,
		image + ":0.1.0@md5:0123456789abcdef":   false,
		image + ":1":                            false,
		image + ":latest":                       false,
		image + ":stable-2":                     false,
		image:                                   false,
		"registry.example.com:5000/dlq-manager": false,
	} {
		if got := pinned.MatchString(reference); got != want {
			t.Errorf("%s: pinned %t, want %t", reference, got, want)
		}
	}
}

// An overlay puts a digest beside the tag, as the documentation has it, and every
// workload runs that image; the Job keeps the name of its release.
func TestAnOverlayPinsByDigest(t *testing.T) {
	t.Parallel()
	tree := loadTree(t)
	change(t, tree, "/overlays/prod/kustomization.yaml", "    newTag: 0.1.0\n", "    newTag: 0.1.0\n    digest: "+someDigest+"\n")
	set := render(t, tree, "overlays/prod")
	for _, pod := range set.Pods() {
		if got, want := pod.Template.Spec.Containers[0].Image, image+":0.1.0@"+someDigest; got != want {
			t.Errorf("%s runs %s, want %s", pod.Name, got, want)
		}
	}
	for _, problem := range Problems(set) {
		t.Error(problem)
	}
	broken(t, tree, someDigest, someDigest[:50], "is not pinned")
}

func broken(t *testing.T, tree filesys.FileSystem, old, changed, want string) {
	t.Helper()
	change(t, tree, "/overlays/prod/kustomization.yaml", old, changed)
	if got := said(tree, "overlays/prod"); !strings.Contains(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The images that ours begins with have no digest in the Dockerfile, which is the
// builder's to give: each is an argument, and has a version at least.
func TestTheDockerfileLetsItsImagesBePinned(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(path.Join("..", "..", "..", "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	arguments := map[string]string{}
	for _, found := range regexp.MustCompile(`(?m)^ARG (\w+)=(\S+)$`).FindAllStringSubmatch(string(raw), -1) {
		arguments[found[1]] = found[2]
	}
	froms := regexp.MustCompile(`(?m)^FROM (?:--\S+ )?(\S+)`).FindAllStringSubmatch(string(raw), -1)
	if len(froms) != 3 {
		t.Fatalf("got %d images, want 3", len(froms))
	}
	version := regexp.MustCompile(`[0-9]+(\.[0-9]+)?(:nonroot|@sha256:[0-9a-f]{64})?$`)
	for _, from := range froms {
		if name, ok := strings.CutPrefix(from[1], "$"); !ok || !version.MatchString(arguments[name]) {
			t.Errorf("FROM %s (%s): want an argument that is a version", from[1], arguments[name])
		}
	}
}
