package stack

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// duckDBPin is the version of DuckDB for Python.
const duckDBPin = "duckdb==2.0.1"

// duckDBScript is a Python script that runs a query and prints each row as JSON on a line of its own.
const duckDBScript = `
import sys, json, duckdb
found = duckdb.sql(sys.argv[1])
for row in found.fetchall():
    print(json.dumps(dict(zip(found.columns, row)), default=lambda v: v.hex() if isinstance(v, bytes) else str(v)))
`

// DuckDB returns a command that runs a query of DuckDB, which can read Parquet files without the code of dlq-manager.
// The command prints each row as a JSON object on a line, with bytes as hexadecimal digits. DuckDB installs the program
// into the cache if it is missing; there is no stand-in.
func DuckDB(ctx context.Context, query string) (*exec.Cmd, error) {
	env := readEnvironment(os.Getenv)
	cache, err := cacheFolder(env)
	if err != nil {
		return nil, err
	}
	installed := artefact{
		name:  "duckdb",
		files: map[string][]byte{"requirements.txt": []byte(duckDBPin + "\n"), "query.py": []byte(duckDBScript)},
		install: func(ctx context.Context, dir string) error {
			python, err := lookPath(env.path, "python3")
			if err != nil {
				return err
			}
			log, installer := filepath.Join(dir, "install.log"), filepath.Join(dir, "installer")
			if err := run(ctx, exec.Command(python, "-m", "venv", installer), log); err != nil {
				return err
			}
			pip := exec.Command(filepath.Join(installer, "bin", "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
				"--no-deps", "--target", filepath.Join(dir, "packages"), "--requirement", filepath.Join(dir, "requirements.txt"))
			if err := run(ctx, pip, log); err != nil {
				return err
			}
			return os.RemoveAll(installer)
		},
	}
	dir, err := installed.ensure(ctx, cache)
	if err != nil {
		return nil, fmt.Errorf("install %s: %w", duckDBPin, err)
	}
	python, err := lookPath(env.path, "python3")
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, python, filepath.Join(dir, "query.py"), query)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join(dir, "packages"), "TZ=UTC")
	return cmd, nil
}
