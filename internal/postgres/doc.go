// Package postgres owns the access to the database: the connection pool, transactions, notifications, migrations, and the
// embedded cluster that Holdpoint runs if no database is configured.
//
// Its only table is schema_migrations. It does not know the others.
//
// # The embedded cluster
//
// Without a database URL, [Open] finds the PostgreSQL server programs of this machine, and keeps a cluster in the directory
// "postgres" of the data directory:
//
//	postgres/data      the cluster (PGDATA), owned by the account PostgreSQL runs as
//	postgres/run       the Unix socket, if its path is short enough
//	postgres/password  the password of the processes that use the cluster
//	postgres/log       the server's log
//	postgres/lock      held while the cluster is started or stopped
//	postgres/members   held, shared, by every process that uses the cluster
//
// The server listens only on that Unix socket, in a directory that only its owner can enter, and requires the password. The
// first process starts the server, others share it, and the last one to leave stops it. The kernel releases the locks of a
// killed process, so no process has to clean up after another. The next process adopts a server that outlived its processes.
//
// PostgreSQL refuses to run as root. If the process is root, only the server programs run as the account "postgres".
//
// # Statements for many rows
//
// One statement takes one array for each column: FROM unnest((SELECT $1::uuid[]), $2::text[], …). The subselect hides the length of
// the array from the planner. Otherwise a plan for the arguments at hand looks cheaper than a generic one, and PostgreSQL plans the
// statement anew each time (plan_cache_mode, "auto"), which costs more than running it for a few rows.
package postgres
