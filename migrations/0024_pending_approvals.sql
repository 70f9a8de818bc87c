-- no transaction
-- approval: what waits is counted by agent.
DROP INDEX CONCURRENTLY IF EXISTS approvals_pending_agent;
CREATE INDEX CONCURRENTLY approvals_pending_agent ON approvals (agent_id, principal_id) WHERE status = 'pending';
