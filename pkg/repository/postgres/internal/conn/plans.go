package conn

import (
	"context"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"
)

const (
	// plansInterval is the minimum time between two reads of the sizes of tables. The sizes are read only while the store
	// sends statements.
	plansInterval = time.Second
	// sizesTimeout limits the time for reading the sizes of tables.
	sizesTimeout = 5 * time.Second
	// replacedTime is the time for which a replaced statement stays open, because a caller may still use it.
	replacedTime = time.Minute
	// smallTable is a size in bytes. A table that is not larger is read quickly with any plan, so its growth drops no
	// statements.
	smallTable = 1 << 20
)

// sizesQuery returns the size in bytes of each table whose growth makes the store prepare its statements again.
const sizesQuery = `SELECT c.oid::bigint, pg_relation_size(c.oid) FROM pg_class c
	WHERE c.relnamespace = 'dlq'::regnamespace AND c.relkind = 'r' AND NOT c.relispartition`

// maxPrepared is the number of prepared statements from which on DB.query keeps no further one, because each uses
// memory in every connection. The text of some queries contains the size of a page, so there could be very many.
const maxPrepared = 160

// statements are the prepared statements of a store. PostgreSQL keeps the plan of a prepared statement until its tables
// are analyzed. When a flood of messages arrives in a table that was empty, autovacuum analyzes the table after a
// minute or more. Until then, the old plan for a page of 20 messages would read the whole table. So statements are
// prepared again when a table larger than smallTable has doubled its size.
type statements struct {
	mu       sync.Mutex
	prepared map[string]*sqlx.Stmt
	due      time.Time       // time from which on the sizes of the tables may be read again
	reading  bool            // whether a caller is reading the sizes of the tables now
	sizes    map[int64]int64 // size of each table when statements were last dropped, or a smaller size since then, by the oid of the table
}

// get returns the prepared statement of a query; nil when there is none. full reports whether there are maxPrepared
// statements or more.
func (s *statements) get(query string) (st *sqlx.Stmt, full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.prepared[query], len(s.prepared) >= maxPrepared
}

// keep stores the prepared statement of a query and returns it. When another caller has stored a statement for the
// query before, keep returns that statement.
func (s *statements) keep(query string, made *sqlx.Stmt) *sqlx.Stmt {
	s.mu.Lock()
	st := s.prepared[query]
	if st == nil {
		s.prepared[query] = made
	}
	s.mu.Unlock()
	if st != nil {
		_ = made.Close()
		return st
	}
	return made
}

// begin reports whether the caller must read the sizes of the tables now. If so, the caller has to call end afterwards.
func (s *statements) begin(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reading || now.Before(s.due) {
		return false
	}
	s.reading, s.due = true, now.Add(plansInterval)
	return true
}

func (s *statements) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reading = false
}

// renew drops all prepared statements when a table is much larger than it was when they were prepared. It closes the
// dropped statements only after replacedTime, when no caller uses them any more.
func (s *statements) renew(sizes map[int64]int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !outgrown(s.sizes, sizes) {
		for oid, size := range sizes { // ANALYZE renews the plans of a table that shrank, so its size is only noted
			s.sizes[oid] = min(size, s.sizes[oid])
		}
		return
	}
	replaced := s.prepared
	s.prepared, s.sizes = make(map[string]*sqlx.Stmt), sizes
	time.AfterFunc(replacedTime, func() {
		for _, st := range replaced {
			_ = st.Close()
		}
	})
}

// outgrown reports whether a table that is not small has doubled its size.
func outgrown(before, now map[int64]int64) bool {
	for oid, size := range now {
		if size > smallTable && size >= 2*before[oid] {
			return true
		}
	}
	return false
}

// watch drops the prepared statements when tables have grown, so that they are prepared again. It does so in a
// goroutine, so that the caller need not wait for the database, which may be slow or unavailable.
func (s *statements) watch(pool *sqlx.DB) {
	if !s.begin(time.Now()) {
		return
	}
	go func() {
		defer s.end()
		ctx, cancel := context.WithTimeout(context.Background(), sizesTimeout) // not the caller's context, because the goroutine belongs to no request
		defer cancel()
		s.renewNow(ctx, pool)
	}()
}

// renewNow reads the sizes of the tables and calls renew with them. When the database does not answer, renewNow does
// nothing, because the next statement reports that error.
func (s *statements) renewNow(ctx context.Context, pool *sqlx.DB) {
	sizes := map[int64]int64{}
	rows, err := pool.QueryContext(ctx, sizesQuery)
	if err != nil {
		return
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var oid, size int64
		if rows.Scan(&oid, &size) != nil {
			return
		}
		sizes[oid] = size
	}
	if rows.Err() == nil {
		s.renew(sizes)
	}
}
