package program

import (
	"runtime/debug"
	"testing"
)

func TestTuneMemory(t *testing.T) { // not parallel, because the settings apply to the whole process
	percent, limit := debug.SetGCPercent(100), debug.SetMemoryLimit(1<<40)
	t.Cleanup(func() { debug.SetGCPercent(percent); debug.SetMemoryLimit(limit) })
	tests := []struct {
		name    string
		environ map[string]string
		percent int
		limit   int64
	}{
		{"AsItIs", nil, collectAt, memoryLimit},
		{"WhatAnOperatorSaysHolds", map[string]string{"GOGC": "50", "GOMEMLIMIT": "1GiB"}, 100, 1 << 40},
		{"OneOfThem", map[string]string{"GOMEMLIMIT": "1GiB"}, collectAt, 1 << 40},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			debug.SetGCPercent(100)
			debug.SetMemoryLimit(1 << 40)
			tuneMemory(func(name string) string { return tt.environ[name] })
			gotPercent, gotLimit := debug.SetGCPercent(100), debug.SetMemoryLimit(-1)
			if gotPercent != tt.percent || gotLimit != tt.limit {
				t.Errorf("GC percent %d, limit %d; want %d, %d", gotPercent, gotLimit, tt.percent, tt.limit)
			}
		})
	}
}
