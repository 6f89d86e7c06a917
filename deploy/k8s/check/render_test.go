package check

import (
	"io/fs"
	"os"
	"path"
	"testing"

	"sigs.k8s.io/kustomize/kyaml/filesys"
)

func loadTree(t *testing.T) filesys.FileSystem {
	t.Helper()
	tree, err := LoadTree("..")
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func render(t *testing.T, tree filesys.FileSystem, dir string) *Set {
	t.Helper()
	set, err := Render(tree, dir)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// renderWith renders the base with one component.
func renderWith(t *testing.T, component string) *Set {
	t.Helper()
	tree := loadTree(t)
	dir, err := AddComponent(tree, component)
	if err != nil {
		t.Fatal(err)
	}
	return render(t, tree, dir)
}

func subdirectories(t *testing.T, parent string) []string {
	t.Helper()
	entries, err := os.ReadDir(path.Join("..", parent))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		if entry.IsDir() {
			names = append(names, entry.Name())
		}
	}
	if len(names) == 0 {
		t.Fatalf("nothing in %s", parent)
	}
	return names
}

// Nothing is listed by hand here, so a new overlay or component is judged from
// its first day.
func TestEveryKustomizationIsSound(t *testing.T) {
	t.Parallel()
	tree := loadTree(t)
	dirs := []string{"base"}
	for _, overlay := range subdirectories(t, "overlays") {
		dirs = append(dirs, path.Join("overlays", overlay))
	}
	for _, component := range subdirectories(t, "components") {
		dir, err := AddComponent(tree, component)
		if err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, dir)
	}
	for _, dir := range dirs {
		t.Run(dir, func(t *testing.T) {
			set := render(t, tree, dir)
			if got := len(set.Pods()); got != 4 {
				t.Errorf("got %d workloads, want api, ingester, archiver and migrate", got)
			}
			for _, problem := range Problems(set) {
				t.Error(problem)
			}
		})
	}
}

func TestExamplesAreSound(t *testing.T) {
	t.Parallel()
	names, err := fs.Glob(os.DirFS("../examples"), "*.yaml")
	if err != nil || len(names) == 0 {
		t.Fatalf("got %v, %v, want examples", names, err)
	}
	for _, name := range names {
		manifest, err := os.ReadFile(path.Join("../examples", name))
		if err != nil {
			t.Fatal(err)
		}
		set := render(t, loadTree(t), "base")
		before := len(set.Pods())
		if err := set.Add(manifest); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := len(set.Pods()); got != before+1 {
			t.Errorf("%s: got %d workloads, want %d", name, got, before+1)
		}
		for _, problem := range Problems(set) {
			t.Errorf("%s: %s", name, problem)
		}
	}
}
