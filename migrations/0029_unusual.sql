-- no transaction
-- approval: decisions about calls with unusual values, for figures.
DROP INDEX CONCURRENTLY IF EXISTS approvals_unusual;
CREATE INDEX CONCURRENTLY approvals_unusual ON approvals (created_at) WHERE seen_unusual > 0;
