package typed_test

import (
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/internal/typed"
)

func TestReadsOnly(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"SELECT 1",
		"select id, name from accounts where owner = 'ada' and balance >= 10.5 order by name limit 10",
		"SELECT * FROM t WHERE note = 'drop table x; --'",
		`SELECT "delete" FROM "update"`,
		"select count(*), sum(amount) from payments group by currency having sum(amount) > 5;",
		"WITH a AS (SELECT 1 AS n) SELECT n FROM a JOIN b USING (n)",
		"SELECT 1; SELECT 2;",
		"SELECT it.* FROM items it WHERE it.id IN (1, 2) AND EXISTS (SELECT 1 FROM x WHERE x.id = it.id)",
		"SELECT amount::numeric(10,2), now() FROM payments WHERE id = $1 OR id = ?",
		"VALUES (1, 'a')",
		"SELECT x FROM (WITH a AS (SELECT 1 AS x) SELECT x FROM a) AS b", "SELECT a, sum(b) FROM t GROUP BY a WITH ROLLUP", "SELECT a::timestamp with time zone FROM t",
		"SELECT 'it''s', lower(name) FROM a\nUNION ALL\nSELECT b, upper(c) FROM d",
	} {
		if !typed.ReadsOnly(text) {
			t.Errorf("%q only reads", text)
		}
	}
	for _, text := range []string{
		"", ";", "   ", "hello", "DELETE FROM a", "update a set b = 1", "INSERT INTO a VALUES (1)", "TRUNCATE a", "drop table a", "CALL f()", "EXEC f", "VACUUM",
		"SELECT 1; DROP TABLE a",
		"SELECT 1 DROP TABLE a", // SQL Server needs no semicolon
		"SELECT 1DROP TABLE a",
		"SELECT 1 SHUTDOWN",
		"SELECT * INTO b FROM a",
		"SELECT * FROM a INTO OUTFILE '/tmp/a'",
		"SELECT * FROM a FOR UPDATE", "SELECT * FROM a FOR SHARE", "SELECT * FROM a FOR KEY SHARE", "SELECT * FROM a FOR ANYTHING",
		"SELECT * FROM a WITH (TABLOCKX)", "SELECT * FROM a with(updlock, holdlock)", "SELECT * FROM a AS b WITH (NOLOCK)", "SELECT * FROM rank (TABLOCKX)", "WITH (TABLOCKX) SELECT 1",
		"SELECT * FROM a WITH ANYTHING", "SELECT * FROM a WITH",
		"WITH a AS (DELETE FROM b RETURNING *) SELECT * FROM a",
		"EXPLAIN ANALYZE DELETE FROM a",
		"SELECT pg_terminate_backend(1)", "SELECT nextval('s')", "SELECT NEXT VALUE FOR s", "SELECT next\nvalue FOR s", "SELECT lo_unlink(1)", "SELECT public.f(1)", "SELECT public . lower(1)", `SELECT "f"(1)`, "SELECT `f`(1)",
		"SELECT load_file('/etc/passwd')", "SELECT * FROM dblink('x', 'drop table a')",
		"SELECT 1 -- comment", "SELECT 1 # comment", "SELECT /*!50000 1; DROP TABLE a */ 1", "SELECT /* x */ 1",
		`SELECT '\'; DROP TABLE a; --'`, "SELECT 'a", `SELECT "a`, "SELECT $$a$$", "SELECT $tag$ a $tag$", "SELECT [a'] ; DROP TABLE x; --']", "SELECT {fn now()}",
		"SELECT @a := 1", "SELECT :name", "SELECT\u00a01", "SELECT 1 \u00a0DROP TABLE a", "SELECT 'ü'", "SELECT 1\x00", "SELECT\v1",
		"SET ROLE admin", "BEGIN; SELECT 1; COMMIT", "COPY a TO PROGRAM 'sh'", "SELECT 1 GO EXEC f", "USE b; SELECT 1", "PRAGMA writable_schema = 1", "(SELECT 1)",
		"SELECT 1;" + strings.Repeat(" ", typed.MaxScanned),
	} {
		if typed.ReadsOnly(text) {
			t.Errorf("%.80q is taken for reading", text)
		}
	}
}
