-- no transaction
-- call: rules count the calls that were sent within a time. Claims of gated calls are the only updates that change the index.
DROP INDEX CONCURRENTLY IF EXISTS calls_sent;
CREATE INDEX CONCURRENTLY calls_sent ON calls (skill_id, claimed_at) WHERE claimed_at IS NOT NULL;
