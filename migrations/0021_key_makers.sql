-- agent: who made a key, and until when it is valid.
ALTER TABLE agent_keys
    ADD COLUMN created_by uuid REFERENCES people,
    ADD COLUMN expires_at timestamptz;
UPDATE agent_keys SET created_by = (
    SELECT e.actor_id FROM audit_events e JOIN people AS inviter ON inviter.id = e.actor_id
    WHERE e.subject_id = agent_keys.agent_id AND e.action = 'agent_key.created' AND e.actor_kind = 'person'
        AND e.data ->> 'key' = agent_keys.id::text
    ORDER BY e.id LIMIT 1);
