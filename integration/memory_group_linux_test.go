package integration_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// memoryLimit is what a program may take, in bytes, with the settings of the
// manifests: the runtime collects before the limit is reached.
func memoryLimit(limit int64) string { return fmt.Sprintf("GOMEMLIMIT=%d", limit*9/10) }

// confine puts a program that has just started into a group of its own that may take
// that much memory, where this machine lets us make one. Its peak is measured in any
// case; see wantPeak.
func (p *process) confine(limit int64) {
	p.t.Helper()
	parent, file := memoryController()
	if parent == "" {
		p.t.Log("there is no group for memory here: the peak is measured")
		return
	}
	group := filepath.Join(parent, fmt.Sprintf("dlq-manager-test-%d", p.program.Pid()))
	if err := os.Mkdir(group, 0o755); err != nil {
		p.t.Logf("no group for memory can be made here, so the peak is measured: %v", err)
		return
	}
	p.t.Cleanup(func() {
		p.kill()
		eventually(p.t, 30*time.Second, "the group is empty", func() bool { return os.Remove(group) == nil })
	})
	for _, setting := range [][2]string{{file, strconv.FormatInt(limit, 10)}, {"cgroup.procs", strconv.Itoa(p.program.Pid())}} {
		if err := os.WriteFile(filepath.Join(group, setting[0]), []byte(setting[1]), 0o600); err != nil {
			p.t.Logf("the group has no %s, so the peak is measured: %v", setting[0], err)
			return
		}
	}
	p.t.Logf("%s may take %d MiB", p.name, limit>>20)
}

// memoryController is the folder below which groups for memory may be made, and the
// name of the file with the limit.
func memoryController() (parent, file string) {
	text, _ := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(text)) {
		if fields := strings.SplitN(strings.TrimSpace(line), ":", 3); len(fields) == 3 && fields[1] == "memory" {
			return filepath.Join("/sys/fs/cgroup/memory", fields[2]), "memory.limit_in_bytes"
		}
	}
	controllers, _ := os.ReadFile("/sys/fs/cgroup/cgroup.subtree_control")
	if bytes.Contains(controllers, []byte("memory")) {
		return "/sys/fs/cgroup", "memory.max"
	}
	return "", ""
}

// wantPeak checks that the program is still the one that was started, and never had
// more than limit in memory.
func (p *process) wantPeak(limit int64) {
	p.t.Helper()
	select {
	case <-p.done:
		p.t.Fatalf("%s ended: %v", p.name, p.program.Err())
	default:
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.program.Pid()))
	if err != nil {
		p.t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "VmHWM:" {
			peak, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				p.t.Fatal(err)
			}
			p.t.Logf("%s had %d MiB at its peak", p.name, peak>>10)
			if peak<<10 > limit {
				p.t.Errorf("%s had %d MiB at its peak, want at most %d", p.name, peak>>10, limit>>20)
			}
			return
		}
	}
	p.t.Fatal("there is no VmHWM")
}
