package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// usage is processor time: of this program and its descendants by their name, and
// of the whole machine.
type usage struct {
	by         map[string]time.Duration
	busy, idle time.Duration
}

// tick is the unit of /proc, the same on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// cpuNow adds up what was used until now. What ended children of PostgreSQL used
// counts as PostgreSQL's.
func cpuNow() (usage, error) {
	u := usage{by: map[string]time.Duration{}}
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return u, err
	}
	u.busy, u.idle = wholeMachine(string(text))
	all, err := processes()
	if err != nil {
		return u, err
	}
	for _, p := range all {
		if p.pid == os.Getpid() || descends(all, p, os.Getpid()) {
			u.by[p.name] += p.own
			if p.name == "postgres" {
				u.by[p.name] += p.children
			}
		}
	}
	return u, nil
}

// wholeMachine reads the first line of /proc/stat. Time that another machine on
// the same hardware took counts as busy: it was not to be had.
func wholeMachine(stat string) (busy, idle time.Duration) {
	line, _, _ := strings.Cut(stat, "\n")
	for i, text := range strings.Fields(line)[1:] {
		n, err := strconv.ParseInt(text, 10, 64)
		switch {
		case err != nil || i > 7: // guests are counted as users already
		case i == 3 || i == 4: // idle, and idle with the disk at work
			idle += time.Duration(n) * tick
		default:
			busy += time.Duration(n) * tick
		}
	}
	return busy, idle
}

type process struct {
	pid, parent   int
	name          string
	own, children time.Duration
}

func processes() (map[int]process, error) {
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	all := map[int]process{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it ended meanwhile
		}
		p, err := parseProcess(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all[p.pid] = p
	}
	return all, nil
}

// parseProcess reads /proc/PID/stat. The name is in parentheses and may hold any.
func parseProcess(stat string) (p process, err error) {
	left, right := strings.Index(stat, "("), strings.LastIndex(stat, ")")
	if left < 0 || right < left {
		return p, errors.New("no name in it")
	}
	p.name = stat[left+1 : right]
	rest := strings.Fields(stat[right+1:]) // begins with the third field, the state
	if len(rest) < 15 {
		return p, errors.New("too few fields")
	}
	var errs []error
	number := func(text string) int {
		n, err := strconv.Atoi(text)
		errs = append(errs, err)
		return n
	}
	p.pid = number(strings.TrimSpace(stat[:left]))
	p.parent = number(rest[1])
	p.own = time.Duration(number(rest[11])+number(rest[12])) * tick
	p.children = time.Duration(number(rest[13])+number(rest[14])) * tick
	return p, errors.Join(errs...)
}

func descends(all map[int]process, p process, from int) bool {
	for p.parent != 0 {
		if p.parent == from {
			return true
		}
		p = all[p.parent]
	}
	return false
}

// since is what was used after before was taken.
func (u usage) since(before usage) usage {
	out := usage{by: map[string]time.Duration{}, busy: u.busy - before.busy, idle: u.idle - before.idle}
	for name, used := range u.by {
		if used -= before.by[name]; used > 0 {
			out.by[name] = used
		}
	}
	return out
}

// plus is both together.
func (u usage) plus(other usage) usage {
	out := usage{by: map[string]time.Duration{}, busy: u.busy + other.busy, idle: u.idle + other.idle}
	for _, by := range []map[string]time.Duration{u.by, other.by} {
		for name, used := range by {
			out.by[name] += used
		}
	}
	return out
}

// share is how much of the machine was busy, 0 to 1.
func (u usage) share() float64 {
	if u.busy+u.idle <= 0 {
		return 0
	}
	return float64(u.busy) / float64(u.busy+u.idle)
}

// foreign is how much of the machine others used, 0 to 1: the figures are then
// less than they could be.
func (u usage) foreign() float64 {
	theirs := u.busy
	for _, ours := range u.by {
		theirs -= ours
	}
	if u.busy+u.idle <= 0 {
		return 0
	}
	return max(0, float64(theirs)/float64(u.busy+u.idle))
}
