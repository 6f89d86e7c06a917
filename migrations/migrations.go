// Package migrations embeds the SQL that makes and unmakes the database schema. The package is in the folder of the SQL
// files because go:embed cannot read a parent folder; pkg/migrate runs the files.
package migrations

import "embed"

// FS holds NNN_name.up.sql and NNN_name.down.sql.
//
//go:embed *.sql
var FS embed.FS
