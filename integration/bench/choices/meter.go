package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jmoiron/sqlx"
)

// part is what work on some rows took.
type part struct {
	rows           int
	server, client time.Duration // processor time
	wal, disk      int64         // bytes
}

// meter looks at one database, on which nobody else works.
type meter struct {
	pool     *sqlx.DB
	database string
	sessions int
}

// measure does the work and says what it took. Processor time is read right before
// and after it; the questions about log and disk lie outside.
func (m meter) measure(ctx context.Context, rows int, work func() error) (part, error) {
	pids, err := m.pids(ctx)
	if err != nil {
		return part{}, err
	}
	wal, disk, err := m.written(ctx)
	if err != nil {
		return part{}, err
	}
	client, server, err := spent(pids)
	if err != nil {
		return part{}, err
	}
	if err := work(); err != nil {
		return part{}, err
	}
	clientAfter, serverAfter, err := spent(pids)
	if err != nil {
		return part{}, err
	}
	walAfter, diskAfter, err := m.written(ctx)
	return part{
		rows: rows, server: serverAfter - server, client: clientAfter - client,
		wal: walAfter - wal, disk: diskAfter - disk,
	}, err
}

// pids are the sessions of the pool, which are opened if they are not there yet.
func (m meter) pids(ctx context.Context) ([]int, error) {
	held := make([]*sqlx.Conn, m.sessions)
	pids := make([]int, m.sessions)
	for i := range held {
		conn, err := m.pool.Connx(ctx)
		if err != nil {
			return nil, err
		}
		defer func() { _ = conn.Close() }()
		if err := conn.GetContext(ctx, &pids[i], "SELECT pg_backend_pid()"); err != nil {
			return nil, err
		}
	}
	return pids, nil
}

func (m meter) written(ctx context.Context) (wal, disk int64, err error) {
	err = m.pool.QueryRowxContext(ctx, `SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint,
		pg_total_relation_size('dlq.dlq_messages')`).Scan(&wal, &disk)
	return wal, disk, err
}

// spent is the processor time of this program, and of those with the numbers.
func spent(pids []int) (own, others time.Duration, err error) {
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
		if err != nil {
			return 0, 0, err
		}
		first, _, _ := strings.Cut(string(text), " ")
		n, err := strconv.ParseInt(first, 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("/proc/%d/schedstat: %w", pid, err)
		}
		others += time.Duration(n)
	}
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, 0, err
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), others, nil
}
