// Package check renders the manifests of dlq-manager and judges them without a
// cluster: every one must decode strictly into its Kubernetes type, every pod
// must pass the restricted Pod Security level, and what the deployment promises
// must be there. It leaves to a cluster what only a cluster can say: admission,
// quotas, and whether the images exist.
package check

import (
	"fmt"
	"io/fs"
	"os"
	"path"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// LoadTree copies the manifests below root into memory under the same relative
// paths, so that tests may change them or add overlays. The check module itself
// is left out.
func LoadTree(root string) (filesys.FileSystem, error) {
	tree, source := filesys.MakeFsInMemory(), os.DirFS(root)
	err := fs.WalkDir(source, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name == "check" {
			return fs.SkipDir
		}
		if entry.IsDir() {
			return nil
		}
		content, err := fs.ReadFile(source, name)
		if err != nil {
			return err
		}
		return tree.WriteFile(path.Join("/", name), content)
	})
	if err != nil {
		return nil, fmt.Errorf("load manifests: %w", err)
	}
	return tree, nil
}

// Render builds the kustomization in dir, a path from the root of the tree, and
// decodes what comes out.
func Render(tree filesys.FileSystem, dir string) (*Set, error) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(tree, path.Join("/", dir))
	if err != nil {
		return nil, fmt.Errorf("render %s: %w", dir, err)
	}
	set := &Set{}
	for _, resource := range built.Resources() {
		manifest, err := resource.AsYAML()
		if err != nil {
			return nil, fmt.Errorf("print %s: %w", resource.CurId(), err)
		}
		if err := set.Add(manifest); err != nil {
			return nil, fmt.Errorf("%s: %s %s: %w", dir, resource.GetKind(), resource.GetName(), err)
		}
	}
	return set, nil
}

// AddComponent writes a kustomization that is the base and one component, and
// returns its directory.
func AddComponent(tree filesys.FileSystem, component string) (string, error) {
	dir := path.Join("with", component)
	content := fmt.Sprintf(`apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [../../base]
components: [../../components/%s]
`, component)
	if err := tree.WriteFile(path.Join("/", dir, "kustomization.yaml"), []byte(content)); err != nil {
		return "", fmt.Errorf("add component %s: %w", component, err)
	}
	return dir, nil
}
