package postgres

import "context"

// each runs a prepared query, reads each of its rows into places, one of a column,
// and calls do. It is for statements of many rows a second: to find the place of a
// column by reflection costs more than to read it.
func (s *Store) each(ctx context.Context, query string, args, places []any, do func() error) (err error) {
	defer func() {
		if denied(err) {
			s.dropConnections()
		}
	}()
	rows, err := s.query(ctx, query, args)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // Err tells
	for rows.Next() {
		if err := rows.Scan(places...); err != nil {
			return err
		}
		if err := do(); err != nil {
			return err
		}
	}
	return rows.Err()
}
