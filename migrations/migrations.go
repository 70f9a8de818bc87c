// Package migrations owns the database's schema: numbered SQL files, applied
// in order, each once. River's own tables are not here; its library brings them.
package migrations

import "embed"

// FS holds the files, NNNN_name.sql.
//
//go:embed *.sql
var FS embed.FS
