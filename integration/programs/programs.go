// Package programs builds, configures, starts and stops the released programs as processes, for
// black-box tests.
package programs

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/dlq-manager/dlq-manager/integration/filelock"
)

// names has the programs that Build builds.
var names = []string{"api", "ingester", "archiver"}

// Build builds the programs api, ingester and archiver, and returns their folder, which is below bin. It works in every
// module of the repository. The test processes of all modules share the folder, so each program is linked only once. A
// program in the folder is never missing, also while another process builds.
func Build() (dir string, err error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/dlq-manager/dlq-manager").Output()
	if err != nil {
		return "", fmt.Errorf("find the folder of the programs: %w", err)
	}
	root := strings.TrimSpace(string(out))
	dir = filepath.Join(root, "bin", "test-programs")
	building := filepath.Join(dir, "building") // go build removes what is out of date before it links
	if err := os.MkdirAll(building, 0o755); err != nil {
		return "", err
	}
	lock, err := filelock.Wait(filepath.Join(building, "lock"))
	if err != nil {
		return "", err
	}
	defer lock.Release()
	args := []string{"build", "-ldflags=-w", "-buildvcs=false", "-o", building + string(filepath.Separator)}
	for _, name := range names {
		args = append(args, "./cmd/"+name)
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	for _, name := range names {
		if err := replace(filepath.Join(dir, name), filepath.Join(building, name)); err != nil {
			return "", fmt.Errorf("build the programs: %w", err)
		}
	}
	return dir, nil
}

// replace makes path another name of the file from, in one step.
func replace(path, from string) error {
	next := from + ".next"
	if err := os.Remove(next); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return errors.Join(os.Link(from, next), os.Rename(next, path))
}

// Config holds the settings for a program's file. Write adds some settings that suit tests; all others keep their
// default, or come from the environment.
type Config struct {
	// Database is the URL of a database, with a password.
	Database string

	// Broker is the address of a Kafka broker, Group the ingester's consumer group, and Pattern
	// matches the names of the dead-letter topics.
	Broker, Group, Pattern string

	// More is YAML of further sections. It must not contain app, log, server, database, kafka or ingest.
	More string
}

// ShareGroupTopic returns the name of a share group's dead-letter topic that the ingester of a
// consumer group reads.
func ShareGroupTopic(consumerGroup, name string) string { return "dlq." + consumerGroup + "-" + name }

// Write writes the file, readable only by its owner.
func (c Config) Write(path string) error {
	u, err := url.Parse(c.Database)
	if err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	password, _ := u.User.Password()
	text := fmt.Sprintf(`
app: {environment: dev}
log: {level: info, format: json}
server: {host: 127.0.0.1, startup_timeout: 30s}
database: {host: %q, port: %s, name: %q, user: %q, password: %q}
kafka: {brokers: [%q], consumer_group: %q, dlq_topic_pattern: %q, share_group_topics: [%q]}
ingest: {discovery_interval: 1s, session_timeout: 2s}
%s`, u.Hostname(), u.Port(), strings.TrimPrefix(u.Path, "/"), u.User.Username(), password,
		c.Broker, c.Group, c.Pattern, ShareGroupTopic(c.Group, "*"), c.More)
	return os.WriteFile(path, []byte(text), 0o600)
}

// FreePort returns a port of the loopback address that is free at the moment.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// Tail returns the end of a log, "" if it does not exist.
func Tail(path string) string {
	text, _ := os.ReadFile(path)
	if len(text) > 6000 {
		text = text[len(text)-6000:]
	}
	return string(text)
}
