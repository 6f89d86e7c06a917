// Package migrations embeds the SQL that makes and unmakes the database schema. It is in the folder of these files
// because go:embed cannot read a parent folder; pkg/migrate runs them.
package migrations

import "embed"

// FS holds NNN_name.up.sql and NNN_name.down.sql.
//
//go:embed *.sql
var FS embed.FS
