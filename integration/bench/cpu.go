package main

import (
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/prometheus/procfs"
)

// usage is the processor time of this process and its descendants, by program name, and of the
// whole machine.
type usage struct {
	by         map[string]time.Duration
	busy, idle time.Duration
	load       float64 // load average of the last minute
}

// clockTick is the unit of /proc/PID/stat, equal on every Linux that Go supports.
const clockTick = 10 * time.Millisecond

// usageNow returns the processor time used until now. Time of ended PostgreSQL sessions counts as
// PostgreSQL's; time that the hypervisor gave to other machines counts as busy.
func usageNow() usage {
	fs := must(procfs.NewDefaultFS())
	c := must(fs.Stat()).CPUTotal
	u := usage{
		by: map[string]time.Duration{}, load: must(fs.LoadAvg()).Load1,
		idle: time.Duration((c.Idle + c.Iowait) * float64(time.Second)),
		busy: time.Duration((c.User + c.Nice + c.System + c.IRQ + c.SoftIRQ + c.Steal) * float64(time.Second)),
	}
	processes := map[int]procfs.ProcStat{}
	for _, p := range must(fs.AllProcs()) {
		if stat, err := p.Stat(); err == nil { // a process that has ended since AllProcs listed it is left out
			processes[stat.PID] = stat
		}
	}
	for pid, p := range processes {
		if !descends(processes, pid, os.Getpid()) {
			continue
		}
		u.by[p.Comm] += time.Duration(p.UTime+p.STime) * clockTick
		if p.Comm == "postgres" {
			u.by[p.Comm] += time.Duration(p.CUTime+p.CSTime) * clockTick
		}
	}
	return u
}

// descends reports whether process pid is the process from or a descendant of from.
func descends(all map[int]procfs.ProcStat, pid, from int) bool {
	for pid != from && pid != 0 {
		pid = all[pid].PPID
	}
	return pid == from
}

// since returns the processor time that was used after the measurement before and until the measurement u.
func (u usage) since(before usage) usage {
	out := usage{by: map[string]time.Duration{}, busy: u.busy - before.busy, idle: u.idle - before.idle, load: u.load}
	for name, used := range u.by {
		out.by[name] = max(used-before.by[name], 0)
	}
	return out
}

// others returns the share of the machine's processors, 0 to 1, that other programs and the kernel itself used.
func (u usage) others() float64 {
	theirs := u.busy
	for _, ours := range u.by {
		theirs -= ours
	}
	return max(0, quotient(float64(theirs), float64(u.busy+u.idle)))
}

// machine describes the machine on which the figures were measured.
func machine() string {
	fs := must(procfs.NewDefaultFS())
	memory := must(fs.Meminfo()).MemTotal
	return fmt.Sprintf("%d cores (%s), %d GB of memory", runtime.NumCPU(), must(fs.CPUInfo())[0].ModelName, *memory>>20)
}
