// Package migrations embeds the SQL that creates and removes the database schema. The package is in the folder of the
// SQL files because go:embed cannot read a parent folder; pkg/migrate runs the files.
package migrations

import "embed"

// FS contains the files NNN_name.up.sql and NNN_name.down.sql of each migration.
//
//go:embed *.sql
var FS embed.FS
