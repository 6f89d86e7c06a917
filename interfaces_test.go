package dlqmanager_test

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// maxMethods limits the number of methods of an interface, including those of the interfaces that it embeds.
const maxMethods = 12

// TestInterfacesAreSmall checks the interfaces of the programs' packages. The exception is pkg/repository, whose
// interfaces the stores implement.
func TestInterfacesAreSmall(t *testing.T) {
	t.Parallel()
	packages := list(t, "-deps", "-export", "./cmd/...")
	exports := map[string]string{}
	for _, p := range packages {
		exports[p.ImportPath] = p.Export
	}
	fset := token.NewFileSet()
	config := types.Config{Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})}
	checked := 0
	for _, p := range packages {
		if !strings.HasPrefix(p.ImportPath, module) || p.name() == "pkg/repository" {
			continue
		}
		var files []*ast.File
		for _, name := range p.GoFiles {
			files = append(files, check.Must(parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution))(t))
		}
		info := &types.Info{Defs: map[*ast.Ident]types.Object{}}
		check.Must(config.Check(p.ImportPath, fset, files, info))(t)
		for _, object := range info.Defs {
			if i := declaredInterface(object); i != nil {
				checked++
				check.True(t, i.NumMethods() <= maxMethods, "the interface %s.%s has %d methods, want at most %d",
					p.name(), object.Name(), i.NumMethods(), maxMethods)
			}
		}
	}
	check.True(t, checked > 100, "got only %d interfaces, want those of all packages", checked)
}

// declaredInterface returns the interface that a type name, or the type of a variable, declares; nil for other objects.
func declaredInterface(object types.Object) *types.Interface {
	if object == nil {
		return nil
	}
	of := object.Type()
	if _, named := object.(*types.TypeName); named {
		of = of.Underlying()
	}
	i, _ := of.(*types.Interface)
	return i
}
