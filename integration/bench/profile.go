package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// profile is where a program and the database spent their time while a part ran.
type profile struct {
	name       string // of the program; empty when only statements were counted
	processor  time.Duration
	functions  []spent // of the program
	statements []spent // of the database
}

// spent is what something took.
type spent struct {
	what  string
	share float64 // of all that was taken, 0 to 1
	calls int64   // of a statement
	each  time.Duration
}

// profiled is a measurement that has profiles.
type profiled interface {
	profiles() []profile
}

// profileTop is how many of each are shown.
const profileTop = 3

// noting is a profile under way.
type noting struct {
	d    *database
	name string
	path string
}

// trackStatements makes connections that are opened from now on count what
// statements take, all but those of the bench to other databases.
const trackStatements = `SELECT pg_stat_statements_reset(0, (SELECT oid FROM pg_database WHERE datname = current_database()), 0)`

// note makes prog write a profile of its processor time when it runs next, and
// forgets what the database counted of statements. done must be called when prog
// has ended.
func (b *bench) note(ctx context.Context, d *database, prog *program) (*noting, error) {
	n := &noting{d: d, name: prog.name, path: filepath.Join(b.folder, d.url.Path[1:]+"-"+prog.name+".pprof")}
	if _, err := d.ExecContext(ctx, trackStatements); err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	prog.flags = []string{"--cpu-profile", n.path}
	return n, nil
}

// done reads the profiles. The program has ended.
func (n *noting) done(ctx context.Context) (profile, error) {
	out := profile{name: n.name}
	text, err := exec.CommandContext(ctx, "go", "tool", "pprof", "-top", "-nodefraction=0", "-nodecount=1000000", "-hide", folded, n.path).Output()
	if err != nil {
		return out, fmt.Errorf("read %s: %w%s", n.path, err, stderrOf(err))
	}
	if out.functions, out.processor, err = readTop(string(text)); err != nil {
		return out, fmt.Errorf("read %s: %w", n.path, err)
	}
	out.statements, err = n.d.statements(ctx)
	return out, err
}

func stderrOf(err error) string {
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		return ": " + string(failed.Stderr)
	}
	return ""
}

// folded are functions whose time counts as that of those who called them: the
// runtime, system calls, and what copies and compares bytes. Stacks of nothing
// else are what the runtime does on its own.
const folded = `^(runtime|internal/runtime|internal/poll|internal/bytealg|syscall|internal/syscall|sync|sync/atomic)(/[a-z/]+)?\.|^(memclr|memmove|memeqbody|aeshash|cmpbody|indexbyte|gcWriteBarrier|gogo|gosave)`

var (
	topSeen = regexp.MustCompile(`Showing nodes accounting for ([0-9.]+[a-zµ]*),`)
	topSum  = regexp.MustCompile(`Total samples = ([0-9.]+[a-zµ]+)`)
	topLine = regexp.MustCompile(`^\s*([0-9.]+[a-zµ]*)\s+([0-9.]+)%\s+[0-9.]+%\s+\S+\s+[0-9.]+%\s+(.+)$`)
)

// aloneName is what the runtime does that nobody of ours called.
const aloneName = "runtime and garbage collection"

// readTop reads what "go tool pprof -top" prints of all nodes: the first of it, and
// last, what is on no stack of ours and so missing there.
func readTop(text string) (top []spent, all time.Duration, err error) {
	sum := topSum.FindStringSubmatch(text)
	if sum == nil {
		return nil, 0, errors.New("no sum of samples in it")
	}
	if all, err = profileTime(sum[1]); err != nil {
		return nil, 0, err
	}
	shown := topSeen.FindStringSubmatch(text)
	if shown == nil {
		return nil, 0, errors.New("no sum of what is shown in it")
	}
	ours, err := profileTime(shown[1])
	if err != nil {
		return nil, 0, err
	}
	for text := range strings.Lines(text) {
		found := topLine.FindStringSubmatch(strings.TrimRight(text, "\n"))
		if found == nil || len(top) == profileTop {
			continue
		}
		var percent float64
		if _, err := fmt.Sscanf(found[2], "%g", &percent); err != nil {
			return nil, 0, err
		}
		top = append(top, spent{what: shortFunction(found[3]), share: percent / 100})
	}
	alone := spent{what: aloneName, share: quotient(float64(max(0, all-ours)), float64(all))}
	return append(top, alone), all, nil
}

// profileTime reads a time as the tool writes it.
func profileTime(text string) (time.Duration, error) {
	if text == "0" {
		return 0, nil
	}
	d, err := time.ParseDuration(strings.NewReplacer("mins", "m", "hrs", "h").Replace(text))
	if err != nil {
		return 0, fmt.Errorf("a time in the profile: %w", err)
	}
	return d, nil
}

// shortFunction leaves out the path of a package.
func shortFunction(name string) string {
	name, _ = strings.CutSuffix(name, " (inline)")
	return name[strings.LastIndex(name, "/")+1:]
}

// statements are those that took most of the time of all statements in this
// database, from the begin to the end of each, waits included.
func (d *database) statements(ctx context.Context) ([]spent, error) {
	rows, err := d.QueryContext(ctx, `
		SELECT query, calls, total_exec_time, coalesce(sum(total_exec_time) OVER (), 0)
		FROM pg_stat_statements WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) AND calls > 0`)
	if err != nil {
		return nil, fmt.Errorf("statements: %w", err)
	}
	defer func() { _ = rows.Close() }()
	byName := map[string]*spent{}
	for rows.Next() {
		var query string
		var calls int64
		var took, all float64
		if err := rows.Scan(&query, &calls, &took, &all); err != nil {
			return nil, fmt.Errorf("statements: %w", err)
		}
		name := shortStatement(query)
		s := byName[name]
		if s == nil {
			s = &spent{what: name}
			byName[name] = s
		}
		s.each = time.Duration((float64(s.each)*float64(s.calls) + took*float64(time.Millisecond)) / float64(s.calls+calls))
		s.calls += calls
		s.share += took / max(all, 1e-9)
	}
	var top []spent
	for _, s := range byName {
		top = append(top, *s)
	}
	slices.SortFunc(top, func(a, b spent) int { return int(1e9 * (b.share - a.share)) })
	return top[:min(profileTop, len(top))], rows.Err()
}

var (
	writes = regexp.MustCompile(`(?i)\b(INSERT INTO|UPDATE|DELETE FROM)\s+(?:ONLY\s+)?dlq\.(\w+)`)
	asks   = regexp.MustCompile(`(?i)\b(?:FROM|JOIN)\s+dlq\.(\w+)`)
	begins = regexp.MustCompile(`(?i)^\s*WITH\s+(\w+)\s+AS\b`)
	spaces = regexp.MustCompile(`\s+`)
)

// shortStatement names a statement by what it writes, or else by what it reads,
// and by the part that it begins with: several statements write the same tables.
func shortStatement(query string) string {
	var parts []string
	add := func(text string) {
		if !slices.Contains(parts, text) {
			parts = append(parts, text)
		}
	}
	for _, found := range writes.FindAllStringSubmatch(query, -1) {
		add(strings.ToUpper(strings.Fields(found[1])[0]) + " " + found[2])
	}
	if len(parts) == 0 {
		for _, found := range asks.FindAllStringSubmatch(query, -1) {
			add("SELECT " + found[1])
		}
	}
	if len(parts) == 0 {
		add(spaces.ReplaceAllString(strings.TrimSpace(query), " "))
		parts[0] = parts[0][:min(len(parts[0]), 40)]
	}
	if len(parts) > profileTop {
		parts = append(parts[:profileTop], "…")
	}
	if begin := begins.FindStringSubmatch(query); begin != nil {
		return "with " + begin[1] + ": " + strings.Join(parts, ", ")
	}
	return strings.Join(parts, ", ")
}

// countStatements makes what the server counts visible in every database that is
// made from now on.
func (b *bench) countStatements(ctx context.Context) error {
	template, err := openDatabase(b.stack.DatabaseURL())
	if err != nil {
		return err
	}
	template.url.Path = "/template1"
	if template.DB, err = sql.Open("postgres", template.url.String()); err != nil {
		return err
	}
	defer template.close()
	if _, err := template.ExecContext(ctx, "CREATE EXTENSION pg_stat_statements"); err != nil {
		return fmt.Errorf("count statements: %w", err)
	}
	return nil
}

// profiles are those of all parts as a table, with a title; empty without any.
func (r result) profiles() string {
	var b strings.Builder
	for _, m := range r.parts {
		from, ok := m.measurement.(profiled)
		if !ok {
			continue
		}
		for _, p := range from.profiles() {
			if b.Len() == 0 {
				b.WriteString("| part | program | its functions | statements |\n| --- | --- | --- | --- |\n")
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", m.name, p.program(), functionsText(p.functions), statementsText(p.statements))
		}
	}
	return b.String()
}

// program says which program it is of; without a name, of none.
func (p profile) program() string {
	if p.name == "" {
		return noDemand
	}
	return p.name + ", " + seconds(p.processor)
}

func functionsText(all []spent) string {
	var parts []string
	for _, s := range all {
		name := "`" + s.what + "`"
		if s.what == aloneName {
			name = aloneName
		}
		parts = append(parts, fmt.Sprintf("%s %.0f %%", name, 100*s.share))
	}
	if len(parts) == 0 {
		return noDemand
	}
	return strings.Join(parts, "; ")
}

func statementsText(all []spent) string {
	var parts []string
	for _, s := range all {
		parts = append(parts, fmt.Sprintf("`%s` %.0f %% (%s × %s)", s.what, 100*s.share, thousands(int(s.calls)), fine(s.each)))
	}
	return strings.Join(parts, "; ")
}
