// Package postgrestest owns the databases of tests: it lends each test a migrated, empty database on a real PostgreSQL.
//
// The server is that of DATABASE_URL, whose user must be allowed to create databases. Else it is an embedded cluster in the
// directory for temporary files, shared by all test processes of a user. A missing PostgreSQL fails the test.
//
// Databases are cloned from a template, which is made once for each state of the migrations. A database is lent under an
// advisory lock, emptied, and kept for the next test. This takes 5 to 30 ms instead of half a second. The connections of a
// killed test process release its databases.
//
// The embedded cluster trades durability for speed. A keeper runs it: another process of the test binary, which stops the
// cluster a few seconds after the last test process has ended. Tests that stop PostgreSQL use a cluster of their own.
package postgrestest
