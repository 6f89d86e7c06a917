package integration_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// memoryLimit returns a setting that makes the Go runtime collect garbage before the memory limit is reached, like the
// setting in the Kubernetes manifests. The pages of the program's executable count towards the limit too, so the
// runtime gets only 80 % of the limit.
func memoryLimit(limit int64) string { return fmt.Sprintf("GOMEMLIMIT=%d", limit*8/10) }

// confine limits the memory of a program by a control group, if the machine allows that; the kernel kills a program
// that exceeds the limit. The returned function checks that the program still runs. Without a control group, it checks
// the program's peak memory instead.
func (p *process) confine(limit int64) (within func()) {
	p.t.Helper()
	err := p.join(limit)
	if err != nil {
		p.t.Logf("%s is in no control group, so its peak is checked: %v", p.name, err)
	}
	return func() {
		p.t.Helper()
		select {
		case <-p.done:
			p.t.Fatalf("%s ended: %v", p.name, p.program.Err())
		default:
		}
		peak := p.peak()
		p.t.Logf("%s had %d MiB of %d at its peak, in a control group: %v", p.name, peak>>20, limit>>20, err == nil)
		if err != nil && peak > limit {
			p.t.Errorf("%s had %d MiB at its peak, want at most %d", p.name, peak>>20, limit>>20)
		}
	}
}

// join moves the program into a new control group with a limit.
func (p *process) join(limit int64) error {
	parent, file := memoryController()
	if parent == "" {
		return errors.New("no memory controller of control groups")
	}
	group := filepath.Join(parent, fmt.Sprintf("dlq-manager-test-%d", p.program.Pid()))
	if err := os.Mkdir(group, 0o755); err != nil {
		return err
	}
	p.t.Cleanup(func() {
		p.kill()
		eventually(p.t, "the group is empty", func() bool { return os.Remove(group) == nil })
	})
	if err := os.WriteFile(filepath.Join(group, file), []byte(strconv.FormatInt(limit, 10)), 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(p.program.Pid())), 0o600)
}

// memoryController returns the folder in which memory control groups can be created, and the name
// of the file with the limit.
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

// peak returns the program's peak of resident memory.
func (p *process) peak() int64 {
	p.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.program.Pid()))
	check.NoError(p.t, err)
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "VmHWM:" {
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			check.NoError(p.t, err)
			return kib << 10
		}
	}
	p.t.Fatal("/proc has no VmHWM")
	return 0
}
