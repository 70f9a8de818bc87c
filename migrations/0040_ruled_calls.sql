-- no transaction
-- call: the calls that rules matched, by time. The page of a rule in shadow mode reads the newest of them.
DROP INDEX CONCURRENTLY IF EXISTS calls_ruled;
CREATE INDEX CONCURRENTLY calls_ruled ON calls (id) WHERE rules IS NOT NULL;
