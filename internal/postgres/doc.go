// Package postgres owns the way to the database: the connection pool,
// transactions, listening for notifications, applying migrations, and the
// embedded cluster that Holdpoint runs when it was not given a database.
//
// It owns no table but schema_migrations, and knows nothing of what the
// others hold.
//
// # The embedded cluster
//
// Without a database URL, [Open] finds the PostgreSQL server programs of this
// machine and keeps a cluster of its own in the directory "postgres" below the
// data directory:
//
//	postgres/data      the cluster (PGDATA), owned by the account PostgreSQL runs as
//	postgres/run       the Unix socket, when its path is short enough for one
//	postgres/password  what the processes that use the cluster say to it
//	postgres/log       what the server says
//	postgres/lock      held while the cluster is started or stopped
//	postgres/members   held, shared, by every process that uses the cluster
//
// It listens on that Unix socket only, in a directory that only its owner can
// enter, and wants a password, which is kept in a file that only the processes of the data
// directory read. The first process starts it, others share it, and the last one to
// leave stops it. The kernel drops the locks of a process that was killed, so
// no process has to clean up after another: a server that outlived its
// processes is taken over by the next one.
//
// PostgreSQL refuses to run as root. When the process is root, only the
// server programs run as the account "postgres".
package postgres
