package dlqmanager_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// maxUpwards is the largest allowed share of references to an earlier file of the reading order, among all references
// between files of a package.
const maxUpwards = 0.15

// needsOrder is the largest number of files of a package that needs no reading order in its doc.go.
const needsOrder = 8

// TestReadingOrder checks that a package can be read from its entry points downwards, in the
// order in which its doc.go lists the files. Run it with -v for the figures.
func TestReadingOrder(t *testing.T) {
	t.Parallel()
	for dir, files := range productFiles(t) {
		order := readingOrder(t, filepath.Join(dir, "doc.go"))
		if order == nil {
			if len(files) > needsOrder && !slices.Contains(unordered, dir) {
				t.Errorf("%s has %d files and no reading order in its doc.go", dir, len(files))
			}
			continue
		}
		t.Run(dir, func(t *testing.T) {
			t.Parallel()
			listed := slices.Sorted(slices.Values(order))
			check.Equal(t, listed, slices.DeleteFunc(files, func(f string) bool { return f == "doc.go" }), "files in doc.go")
			all, up := references(t, dir, order)
			t.Logf("%d of %d references between files lead upwards", len(up), all)
			if float64(len(up)) > maxUpwards*float64(all) {
				t.Errorf("%d of %d references between files lead upwards, want at most %.0f %%:\n%s",
					len(up), all, 100*maxUpwards, strings.Join(up, "\n"))
			}
		})
	}
}

// unordered are packages whose files are entries of a list, which can be read in any order.
var unordered = []string{"pkg/deadletter", "pkg/entity"}

// productFiles returns the names of the files of each package below pkg, without tests, sorted.
func productFiles(t *testing.T) map[string][]string {
	t.Helper()
	packages := map[string][]string{}
	check.NoError(t, filepath.WalkDir("pkg", func(path string, d os.DirEntry, err error) error {
		name := filepath.Base(path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == "node_modules" || strings.HasSuffix(name, "test") || name == "testdata" || name == "fake"):
			return filepath.SkipDir
		case strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go"):
			packages[filepath.Dir(path)] = append(packages[filepath.Dir(path)], name)
		}
		return nil
	}))
	return packages
}

var orderLine = regexp.MustCompile(`(?m)^//\s+- (\w+\.go):`)

// readingOrder returns the files that a doc.go lists; nil when there is none.
func readingOrder(t *testing.T, path string) (files []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil
	}
	check.NoError(t, err)
	for _, m := range orderLine.FindAllStringSubmatch(string(text), -1) {
		files = append(files, m[1])
	}
	return files
}

// noImports is an importer that fails for every package, so that no package is loaded.
type noImports struct{}

func (noImports) Import(string) (*types.Package, error) { return nil, errors.New("not loaded") }

// references counts the pairs of files in which the first file uses a declaration of the second, and names the pairs
// in which the second file comes earlier in the reading order. Imports are not loaded, so a use that goes through a
// value of another package is not counted.
func references(t *testing.T, dir string, order []string) (all int, up []string) {
	t.Helper()
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range order {
		file, err := parser.ParseFile(fset, filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		check.NoError(t, err)
		files = append(files, file)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{}}
	config := types.Config{Importer: noImports{}, Error: func(error) {}}
	pkg, _ := config.Check(dir, fset, files, info) // the errors are about imports, which are not loaded
	at := func(pos token.Pos) int { return slices.Index(order, filepath.Base(fset.Position(pos).Filename)) }
	type pair struct{ from, to int }
	seen := map[pair]string{}
	for ident, object := range info.Uses {
		if object.Pkg() != pkg || !object.Pos().IsValid() {
			continue
		}
		if p := (pair{at(ident.Pos()), at(object.Pos())}); p.from != p.to && (seen[p] == "" || object.Name() < seen[p]) {
			seen[p] = object.Name()
		}
	}
	for p, name := range seen {
		if p.to < p.from {
			up = append(up, order[p.from]+" -> "+order[p.to]+" ("+name+")")
		}
	}
	slices.Sort(up)
	return len(seen), up
}
