-- agent: how many of an agent's calls may wait for people, for each person that they are made for.
ALTER TABLE agents
    ADD COLUMN pending integer NOT NULL DEFAULT 0 CHECK (pending >= 0);  -- 0: the default

-- call: what waits is counted by agent.
ALTER TABLE call_connections
    ADD COLUMN agent_id uuid;
UPDATE call_connections w SET agent_id = c.agent_id FROM calls c WHERE c.id = w.call_id AND w.ended_at IS NULL;
CREATE INDEX approvals_pending_agent ON approvals (agent_id, principal_id) WHERE status = 'pending';
CREATE INDEX call_connections_agent ON call_connections (agent_id, principal_id) WHERE ended_at IS NULL;
