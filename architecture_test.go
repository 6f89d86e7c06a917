// Package dlqmanager_test checks the layers of the repository: which package may import which other package.
// docs/architecture.md contains the same table.
package dlqmanager_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

const module = "github.com/dlq-manager/dlq-manager/"

// layers lists every package that is part of a program, and which packages of this repository it
// may import. The programs connect packages that do not import each other.
var layers = map[string][]string{
	// Layer 0: imports no package of this repository.
	"pkg/entity":    {},
	"pkg/config":    {},
	"pkg/outage":    {},
	"pkg/secret":    {},
	"pkg/telemetry": {},
	"pkg/traces":    {},
	"pkg/wait":      {},
	"migrations":    {},
	"pkg/migrate":   {"migrations"},

	// Layer 1: each package covers one technology or one body of knowledge.
	"pkg/auth":         {"pkg/entity", "pkg/secret"},
	"pkg/deadletter":   {"pkg/deadletter/internal/headername", "pkg/deadletter/internal/headervalue", "pkg/deadletter/internal/naming", "pkg/deadletter/internal/reference", "pkg/entity", "pkg/fingerprint", "pkg/payload"},
	"pkg/fingerprint":  {"pkg/entity"},
	"pkg/opensearch":   {"pkg/entity", "pkg/repository", "pkg/secret", "pkg/wait"},
	"pkg/payload":      {"pkg/entity"},
	"pkg/rest/openapi": {},
	// The schemas of registries, with a part for each format.
	"pkg/schema":                     {"pkg/entity", "pkg/payload", "pkg/secret", "pkg/schema/internal/avro", "pkg/schema/internal/codec", "pkg/schema/internal/jsonschema", "pkg/schema/internal/proto"},
	"pkg/schema/internal/avro":       {"pkg/entity", "pkg/schema/internal/codec"},
	"pkg/schema/internal/codec":      {},
	"pkg/schema/internal/jsonschema": {"pkg/schema/internal/codec"},
	"pkg/schema/internal/proto":      {"pkg/entity", "pkg/schema/internal/codec"},
	"pkg/repository":                 {"pkg/entity"},
	"pkg/repository/memory":          {"pkg/entity", "pkg/repository"},
	// The store in production. pkg/repository/postgres joins the parts below it.
	"pkg/repository/postgres":                   {"pkg/repository", "pkg/repository/postgres/internal/audit", "pkg/repository/postgres/internal/conn", "pkg/repository/postgres/internal/ingest", "pkg/repository/postgres/internal/insight", "pkg/repository/postgres/internal/messages", "pkg/repository/postgres/internal/objects", "pkg/repository/postgres/internal/redrives", "pkg/repository/postgres/internal/replica", "pkg/repository/postgres/internal/search"},
	"pkg/repository/postgres/internal/replica":  {"pkg/entity", "pkg/outage", "pkg/repository", "pkg/wait", "pkg/repository/postgres/internal/conn", "pkg/repository/postgres/internal/insight", "pkg/repository/postgres/internal/messages", "pkg/repository/postgres/internal/redrives", "pkg/repository/postgres/internal/search"},
	"pkg/repository/postgres/internal/insight":  {"pkg/entity", "pkg/repository", "pkg/repository/postgres/internal/audit", "pkg/repository/postgres/internal/codec", "pkg/repository/postgres/internal/conn", "pkg/repository/postgres/internal/search"},
	"pkg/repository/postgres/internal/redrives": {"pkg/entity", "pkg/repository", "pkg/repository/postgres/internal/audit", "pkg/repository/postgres/internal/codec", "pkg/repository/postgres/internal/conn", "pkg/repository/postgres/internal/search"},
	"pkg/repository/postgres/internal/ingest":   {"pkg/entity", "pkg/payload", "pkg/repository", "pkg/repository/postgres/internal/audit", "pkg/repository/postgres/internal/codec", "pkg/repository/postgres/internal/conn", "pkg/repository/postgres/internal/messages", "pkg/repository/postgres/internal/search"},
	"pkg/repository/postgres/internal/search":   {"pkg/entity", "pkg/repository", "pkg/traces", "pkg/repository/postgres/internal/codec", "pkg/repository/postgres/internal/conn"},
	"pkg/repository/postgres/internal/messages": {"pkg/entity", "pkg/repository", "pkg/repository/postgres/internal/audit", "pkg/repository/postgres/internal/codec", "pkg/repository/postgres/internal/conn"},
	"pkg/repository/postgres/internal/objects":  {"pkg/entity", "pkg/repository", "pkg/repository/postgres/internal/audit", "pkg/repository/postgres/internal/codec", "pkg/repository/postgres/internal/conn", "pkg/repository/postgres/internal/messages"},
	"pkg/repository/postgres/internal/audit":    {"pkg/entity", "pkg/repository/postgres/internal/codec", "pkg/repository/postgres/internal/conn"},
	"pkg/repository/postgres/internal/codec":    {"pkg/entity", "pkg/repository"},
	"pkg/repository/postgres/internal/conn":     {"pkg/entity", "pkg/secret", "pkg/traces", "pkg/wait"},

	"pkg/broker": {"pkg/broker/internal/conn", "pkg/broker/internal/protocol", "pkg/broker/internal/token", "pkg/wait"},

	// Internal parts of the packages above.
	"pkg/broker/internal/conn":            {"pkg/broker/internal/protocol", "pkg/broker/internal/token", "pkg/secret", "pkg/wait"},
	"pkg/broker/internal/token":           {"pkg/secret", "pkg/wait"},
	"pkg/broker/internal/protocol":        {"pkg/broker/internal/inflate", "pkg/entity"},
	"pkg/broker/internal/inflate":         {},
	"pkg/archive/tier/internal/bucket":    {"pkg/entity", "pkg/secret"},
	"pkg/archive/tier/internal/file":      {"pkg/repository"},
	"pkg/deadletter/internal/headername":  {},
	"pkg/deadletter/internal/headervalue": {"pkg/entity"},
	"pkg/deadletter/internal/naming":      {},
	"pkg/deadletter/internal/reference":   {},
	"pkg/ingest/internal/consumergroups":  {"pkg/entity", "pkg/repository"},
	"pkg/ingest/internal/errorgroups":     {"pkg/entity", "pkg/repository"},
	"pkg/ingest/internal/health":          {},
	"pkg/ingest/internal/topics":          {"pkg/broker", "pkg/deadletter"},

	// Layer 2: the product's functions. They import neither each other nor a particular store. The exception is
	// pkg/redrive, which imports the packages in its folder and connects them.
	"pkg/ingest":                      {"pkg/entity", "pkg/repository", "pkg/broker", "pkg/deadletter", "pkg/ingest/internal/consumergroups", "pkg/ingest/internal/errorgroups", "pkg/ingest/internal/health", "pkg/ingest/internal/topics", "pkg/outage", "pkg/traces", "pkg/wait"},
	"pkg/sharegroup":                  {"pkg/broker", "pkg/entity", "pkg/outage", "pkg/wait"},
	"pkg/completion":                  {"pkg/broker", "pkg/deadletter", "pkg/entity", "pkg/outage", "pkg/repository", "pkg/wait"},
	"pkg/republisher":                 {"pkg/entity", "pkg/repository", "pkg/broker", "pkg/deadletter", "pkg/traces", "pkg/wait"},
	"pkg/redrive":                     {"pkg/payload", "pkg/redrive/attempt", "pkg/redrive/auto", "pkg/redrive/bulk", "pkg/redrive/outcomes", "pkg/traces"},
	"pkg/redrive/attempt":             {"pkg/entity", "pkg/repository", "pkg/deadletter", "pkg/traces", "pkg/wait"},
	"pkg/redrive/auto":                {"pkg/entity", "pkg/redrive/attempt", "pkg/redrive/internal/harm", "pkg/repository", "pkg/deadletter", "pkg/outage", "pkg/traces", "pkg/wait"},
	"pkg/redrive/internal/harm":       {"pkg/entity", "pkg/repository"},
	"pkg/redrive/bulk/internal/reach": {"pkg/entity", "pkg/redrive/attempt"},
	"pkg/redrive/bulk":                {"pkg/entity", "pkg/redrive/attempt", "pkg/redrive/internal/harm", "pkg/redrive/bulk/internal/reach", "pkg/repository", "pkg/deadletter", "pkg/payload", "pkg/traces", "pkg/wait"},
	"pkg/redrive/outcomes":            {"pkg/entity", "pkg/repository", "pkg/deadletter", "pkg/outage", "pkg/wait"},
	"pkg/search":                      {"pkg/entity", "pkg/repository", "pkg/fingerprint", "pkg/opensearch", "pkg/outage", "pkg/payload", "pkg/wait"},
	"pkg/search/engine":               {"pkg/entity", "pkg/opensearch", "pkg/outage", "pkg/repository"},
	"pkg/archive":                     {"pkg/archive/tier", "pkg/repository"},
	"pkg/archive/tier":                {"pkg/archive/tier/internal/bucket", "pkg/archive/tier/internal/file", "pkg/entity", "pkg/repository"},
	"pkg/heartbeat":                   {"pkg/entity", "pkg/repository", "pkg/broker"},
	"pkg/notify":                      {"pkg/entity", "pkg/outage", "pkg/repository", "pkg/secret", "pkg/wait"},

	// The HTTP API: rest joins its handlers, which do not import one another.
	"pkg/rest/wire":              {"pkg/entity", "pkg/repository", "pkg/auth", "pkg/fingerprint", "pkg/payload"},
	"pkg/rest/internal/respond":  {"pkg/entity", "pkg/repository", "pkg/auth", "pkg/rest/wire"},
	"pkg/rest/internal/address":  {},
	"pkg/rest/internal/budget":   {},
	"pkg/rest/internal/access":   {"pkg/entity", "pkg/repository", "pkg/auth", "pkg/rest/internal/respond"},
	"pkg/rest/internal/request":  {"pkg/entity", "pkg/repository", "pkg/auth", "pkg/payload", "pkg/rest/wire", "pkg/rest/internal/respond", "pkg/rest/internal/access"},
	"pkg/rest/internal/unmask":   {"pkg/entity", "pkg/repository", "pkg/auth", "pkg/payload", "pkg/rest/wire", "pkg/rest/internal/respond", "pkg/rest/internal/access", "pkg/rest/internal/request"},
	"pkg/rest/handlers/messages": {"pkg/entity", "pkg/repository", "pkg/auth", "pkg/payload", "pkg/rest/wire", "pkg/rest/internal/respond", "pkg/rest/internal/access", "pkg/rest/internal/request", "pkg/rest/internal/unmask"},
	"pkg/rest/handlers/search":   {"pkg/entity", "pkg/repository", "pkg/auth", "pkg/rest/wire", "pkg/rest/internal/respond", "pkg/rest/internal/access", "pkg/rest/internal/request", "pkg/rest/internal/unmask"},
	"pkg/rest/handlers/redrives": {"pkg/entity", "pkg/repository", "pkg/auth", "pkg/payload", "pkg/rest/wire", "pkg/rest/internal/respond", "pkg/rest/internal/access", "pkg/rest/internal/request", "pkg/rest/internal/unmask"},
	"pkg/rest/handlers/groups":   {"pkg/entity", "pkg/repository", "pkg/auth", "pkg/rest/wire", "pkg/rest/internal/respond", "pkg/rest/internal/access", "pkg/rest/internal/request", "pkg/rest/internal/unmask"},
	"pkg/rest/handlers/admin":    {"pkg/entity", "pkg/repository", "pkg/auth", "pkg/rest/wire", "pkg/rest/internal/respond", "pkg/rest/internal/access", "pkg/rest/internal/request"},
	"pkg/rest":                   {"pkg/entity", "pkg/repository", "pkg/auth", "pkg/payload", "pkg/rest/openapi", "pkg/traces", "pkg/wait", "pkg/rest/wire", "pkg/rest/internal/respond", "pkg/rest/internal/access", "pkg/rest/internal/address", "pkg/rest/internal/budget", "pkg/rest/internal/request", "pkg/rest/internal/unmask", "pkg/rest/handlers/messages", "pkg/rest/handlers/search", "pkg/rest/handlers/redrives", "pkg/rest/handlers/groups", "pkg/rest/handlers/admin"},

	// The console: its pages import only what is below them, and no package outside its folder.
	"pkg/console/internal/format":  {},
	"pkg/console/internal/link":    {},
	"pkg/console/internal/request": {},
	"pkg/console/internal/session": {},
	"pkg/console/internal/diff":    {"pkg/console/internal/format"},
	"pkg/console/internal/api":     {"pkg/console/internal/format", "pkg/console/internal/link", "pkg/console/internal/session"},
	"pkg/console/internal/view":    {"pkg/console/internal/api", "pkg/console/internal/format", "pkg/console/internal/link", "pkg/console/internal/request", "pkg/console/internal/session"},
	"pkg/console/pages/admin":      {"pkg/console/internal/api", "pkg/console/internal/diff", "pkg/console/internal/format", "pkg/console/internal/link", "pkg/console/internal/request", "pkg/console/internal/session", "pkg/console/internal/view"},
	"pkg/console/pages/groups":     {"pkg/console/internal/api", "pkg/console/internal/diff", "pkg/console/internal/format", "pkg/console/internal/link", "pkg/console/internal/request", "pkg/console/internal/session", "pkg/console/internal/view"},
	"pkg/console/pages/message":    {"pkg/console/internal/api", "pkg/console/internal/diff", "pkg/console/internal/format", "pkg/console/internal/link", "pkg/console/internal/request", "pkg/console/internal/session", "pkg/console/internal/view"},
	"pkg/console/pages/messages":   {"pkg/console/internal/api", "pkg/console/internal/format", "pkg/console/internal/link", "pkg/console/internal/request", "pkg/console/internal/session", "pkg/console/internal/view"},
	"pkg/console/pages/overview":   {"pkg/console/internal/api", "pkg/console/internal/format", "pkg/console/internal/link", "pkg/console/internal/session", "pkg/console/internal/view"},
	"pkg/console/pages/redrive":    {"pkg/console/internal/api", "pkg/console/internal/diff", "pkg/console/internal/format", "pkg/console/internal/link", "pkg/console/internal/request", "pkg/console/internal/session", "pkg/console/internal/view"},
	"pkg/console":                  {"pkg/console/internal/api", "pkg/console/internal/link", "pkg/console/internal/request", "pkg/console/internal/session", "pkg/console/internal/view", "pkg/console/pages/admin", "pkg/console/pages/groups", "pkg/console/pages/message", "pkg/console/pages/messages", "pkg/console/pages/overview", "pkg/console/pages/redrive"},
}

// owners lists the packages that may import a library, so that replacing the library changes only
// these packages.
var owners = map[string][]string{
	"github.com/spf13/viper":                         {"pkg/config"},
	"github.com/go-viper/mapstructure/v2":            {"pkg/config"},
	"github.com/lib/pq":                              {"pkg/repository/postgres/internal/conn", "pkg/repository/postgres/internal/insight", "pkg/migrate"},
	"github.com/XSAM/otelsql":                        {"pkg/repository/postgres/internal/conn"},
	"github.com/jmoiron/sqlx":                        {"pkg/repository/postgres", "pkg/repository/postgres/internal/", "pkg/migrate", "cmd/"},
	"github.com/golang-migrate/migrate":              {"pkg/migrate"},
	"github.com/segmentio/kafka-go":                  {"pkg/broker", "pkg/broker/internal/", "pkg/ingest"},
	"github.com/klauspost/compress":                  {"pkg/broker/internal/inflate"},
	"github.com/pierrec/lz4/v4":                      {"pkg/broker/internal/inflate"},
	"github.com/gorilla/mux":                         {"pkg/rest"},
	"github.com/robfig/cron":                         {"pkg/archive"},
	"github.com/minio/minio-go/v7":                   {"pkg/archive/tier/internal/bucket"},
	"github.com/opensearch-project/opensearch-go/v4": {"pkg/opensearch"},
	"github.com/parquet-go/parquet-go":               {"pkg/archive/tier/internal/file"},
	"github.com/coreos/go-oidc":                      {"pkg/auth"},
	"github.com/go-jose/go-jose":                     {"pkg/auth"},
	"golang.org/x/oauth2":                            {"pkg/auth", "pkg/broker/internal/token"},
	"github.com/aws":                                 {"pkg/broker/internal/token"},
	"github.com/evanphx/json-patch":                  {"pkg/payload"},
	"github.com/wI2L/jsondiff":                       {"pkg/payload"},
	"github.com/shopspring/decimal":                  {"pkg/search"},
	"github.com/twmb/franz-go":                       {"pkg/schema"},
	"github.com/twmb/avro":                           {"pkg/schema/internal/avro"},
	"github.com/bufbuild/protocompile":               {"pkg/schema/internal/proto"},
	"github.com/santhosh-tekuri/jsonschema":          {"pkg/schema/internal/jsonschema"},
	module + "clients/go":                            {},

	// Packages that create spans import only the interfaces in otel/trace, and the packages attribute and codes that
	// those interfaces use.
	"go.opentelemetry.io/otel/sdk":       {"pkg/telemetry"},
	"go.opentelemetry.io/otel/exporters": {"pkg/telemetry"},
	"go.opentelemetry.io/contrib":        {},
}

type goPackage struct {
	ImportPath string
	Standard   bool
	Imports    []string
	Dir        string
	GoFiles    []string
	Export     string // file with the types of the package
}

func (p goPackage) name() string { return strings.TrimPrefix(p.ImportPath, module) }

func TestLayers(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, p := range list(t, "-deps", "./cmd/...") {
		if !strings.HasPrefix(p.ImportPath, module) {
			continue
		}
		name := p.name()
		seen[name] = true
		if name == "cmd" || strings.HasPrefix(name, "cmd/") {
			continue // a program's package may import any package
		}
		allowed, known := layers[name]
		if !known {
			t.Errorf("%s is missing in the table of layers", name)
		}
		for _, i := range p.Imports {
			if own, ok := strings.CutPrefix(i, module); ok && !slices.Contains(allowed, own) {
				t.Errorf("%s imports %s, want only %v", name, own, allowed)
			}
		}
	}
	if len(seen) < 15 {
		t.Errorf("got only the packages %v, want the packages of the programs", seen)
	}
}

func TestLibrariesHaveOneOwner(t *testing.T) {
	t.Parallel()
	for _, p := range list(t, "-deps", "./cmd/...") {
		if !strings.HasPrefix(p.ImportPath, module) {
			continue
		}
		for _, i := range p.Imports {
			for library, allowed := range owners {
				if (i == library || strings.HasPrefix(i, library+"/")) && !owned(p.name(), allowed) {
					t.Errorf("%s imports %s, want it only in %v", p.name(), i, allowed)
				}
			}
		}
	}
}

func owned(name string, allowed []string) bool {
	return slices.ContainsFunc(allowed, func(a string) bool {
		return name == a || strings.HasSuffix(a, "/") && strings.HasPrefix(name, a)
	})
}

func TestProgramsHoldNoTestCode(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"./cmd/api", "./cmd/ingester", "./cmd/archiver"} {
		packages := list(t, "-deps", program)
		if len(packages) < 100 {
			t.Errorf("%s: got %d packages, want all that it contains", program, len(packages))
		}
		for _, p := range packages {
			ours := strings.HasPrefix(p.ImportPath, module)
			if !p.Standard && strings.HasSuffix(p.ImportPath, "test") || p.ImportPath == "testing" ||
				ours && (strings.HasPrefix(p.name(), "integration/") || strings.Contains(p.name(), "test/")) {
				t.Errorf("%s holds %s", program, p.ImportPath)
			}
		}
	}
}

func TestTheLayersAreDocumented(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("docs/architecture.md")
	check.NoError(t, err)
	for name, allowed := range layers {
		var cells []string
		for _, a := range allowed {
			cells = append(cells, "`"+strings.TrimPrefix(a, "pkg/")+"`")
		}
		row := "| `" + name + "` | " + strings.Join(cells, ", ")
		if len(cells) == 0 {
			row += "nothing"
		}
		if !strings.Contains(string(raw), row+" |") {
			t.Errorf("docs/architecture.md has no row %s |", row)
		}
	}
}

// list asks the go command for packages, with the build settings of the programs.
func list(t *testing.T, args ...string) []goPackage {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Standard,Imports,Dir,GoFiles,Export"}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var packages []goPackage
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages
		}
		if err != nil {
			t.Fatalf("go list: %v", err)
		}
		packages = append(packages, p)
	}
}
