package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// machine is what the figures were taken on.
type machine struct {
	day      time.Time
	cores    int
	model    string
	memory   int64 // bytes
	load     string
	postgres string
	kafka    string
}

func describe(ctx context.Context, server, load string) (machine, error) {
	m := machine{day: time.Now().UTC(), cores: runtime.NumCPU(), load: load}
	cpu, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return m, err
	}
	m.model = field(cpu, "model name")
	memory, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return m, err
	}
	if m.memory, err = kilobytes(memory, "MemTotal"); err != nil {
		return m, err
	}
	d, err := openDatabase(server)
	if err != nil {
		return m, err
	}
	defer d.close()
	if err := d.QueryRowContext(ctx, "SHOW server_version").Scan(&m.postgres); err != nil {
		return m, fmt.Errorf("ask for the server's version: %w", err)
	}
	m.kafka, err = kafkaVersion(ctx)
	return m, err
}

// loadAverage is of the last one, five and fifteen minutes.
func loadAverage() (string, error) {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "", err
	}
	return strings.Join(strings.Fields(string(text))[:3], " "), nil
}

var pinned = regexp.MustCompile(`<artifactId>kafka_[^<]*</artifactId>\s*<version>([^<]+)</version>`)

// kafkaVersion is the one that the stack pins; the broker itself does not tell.
func kafkaVersion(ctx context.Context) (string, error) {
	root, err := moduleRoot(ctx)
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(filepath.Join(root, "integration", "stack", "kafka", "pom.xml"))
	if err != nil {
		return "", err
	}
	found := pinned.FindSubmatch(text)
	if found == nil {
		return "", fmt.Errorf("no version of Kafka in integration/stack/kafka/pom.xml")
	}
	return string(found[1]), nil
}

func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// field is the value behind the first "name:" of a file of /proc.
func field(text []byte, name string) string {
	for line := range bytes.Lines(text) {
		key, value, ok := strings.Cut(string(line), ":")
		if ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// kilobytes is a field such as "123 kB" in bytes.
func kilobytes(text []byte, name string) (int64, error) {
	value, ok := strings.CutSuffix(field(text, name), " kB")
	n, err := strconv.ParseInt(value, 10, 64)
	if !ok || err != nil {
		return 0, fmt.Errorf("no %s in kB: %q", name, value)
	}
	return n << 10, nil
}

// space is what the data of a run takes at most, in bytes: logs of the broker,
// 4 GB of the database's, and the largest tables that are there at one time.
func (o options) space() int64 {
	return 6<<30 + int64(float64(24<<30)*o.scale)
}

// expectSpace fails before the disk is full and not when it is.
func (o options) expectSpace() error {
	dir := o.dir
	if dir == "" {
		dir = os.TempDir()
	}
	var disk syscall.Statfs_t
	if err := syscall.Statfs(dir, &disk); err != nil {
		return fmt.Errorf("look for space in %s: %w", dir, err)
	}
	if free := int64(disk.Bavail) * disk.Bsize; free < o.space() {
		return fmt.Errorf("%s has %d GB free, want %d GB", dir, free>>30, o.space()>>30)
	}
	return nil
}

// peakMemory is the most that a process ever had resident, in bytes.
func peakMemory(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	return kilobytes(text, "VmHWM")
}
