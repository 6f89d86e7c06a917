package postgres

import (
	"context"
	"database/sql"
)

// each runs a prepared query, reads each of its rows into places, one of a column,
// and calls do. It is for statements of many rows a second: to find the place of a
// column by reflection costs more than to read it.
func (s *Store) each(ctx context.Context, query string, args, places []any, do func() error) error {
	return s.withRows(ctx, query, args, func(rows *sql.Rows) error {
		for rows.Next() {
			if err := rows.Scan(places...); err != nil {
				return err
			}
			if err := do(); err != nil {
				return err
			}
		}
		return nil
	})
}

// withRows runs a prepared query, and asks its rows for their error and closes them
// when read is done with them.
func (s *Store) withRows(ctx context.Context, query string, args []any, read func(*sql.Rows) error) error {
	rows, err := s.query(ctx, query, args)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // Err tells
	if err := read(rows); err != nil {
		return err
	}
	return rows.Err()
}

// query keeps the statement prepared as long as there are not too many.
func (s *Store) query(ctx context.Context, query string, args []any) (*sql.Rows, error) {
	s.mu.Lock()
	full := len(s.prepared) >= maxPrepared && s.prepared[query] == nil
	s.mu.Unlock()
	if !full {
		st, err := s.stmt(ctx, query) //nolint:sqlclosecheck // it is kept for the next time
		if err != nil {
			return nil, err
		}
		return st.QueryContext(ctx, args...) //nolint:sqlclosecheck // the caller closes the rows
	}
	st, err := s.db.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer func() { _ = st.Close() }()    // once its rows are closed
	return st.QueryContext(ctx, args...) //nolint:sqlclosecheck // the caller closes the rows
}
