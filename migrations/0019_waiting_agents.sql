-- call: calls that wait for a connection are counted by agent.
ALTER TABLE call_connections
    ADD COLUMN agent_id uuid;
UPDATE call_connections w SET agent_id = c.agent_id FROM calls c WHERE c.id = w.call_id AND w.ended_at IS NULL;
CREATE INDEX call_connections_agent ON call_connections (agent_id, principal_id) WHERE ended_at IS NULL;
