-- no transaction
-- call: the calls that a grant let pass, the newest first.
DROP INDEX CONCURRENTLY IF EXISTS calls_grant;
CREATE INDEX CONCURRENTLY calls_grant ON calls (grant_id, id) WHERE grant_id IS NOT NULL;
