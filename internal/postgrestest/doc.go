// Package postgrestest owns the databases that tests run on: it lends each
// test one of its own, migrated and empty, on a real PostgreSQL.
//
// The server is the one that DATABASE_URL names (its user has to be allowed to
// create databases), else an embedded cluster in the directory for temporary files, shared by all
// test processes of a user. No PostgreSQL is a failure, never a skipped test.
//
// A database is cloned once from a template, which is made once for each
// state of the migrations. It is lent under an advisory lock, emptied when it is
// lent, and kept for the next test: 5 to 30 ms instead of half a second.
// A test process that is killed gives its databases back with its connections.
//
// The embedded cluster trades durability for speed. It is run by a keeper, a
// process of its own (the test binary, started again), that stops it
// when no test process has been there for some seconds. Tests about PostgreSQL
// itself going down open a cluster of their own.
package postgrestest
