-- agent: how an agent's endpoint answers while a call is pending.
ALTER TABLE agents ADD COLUMN pending_as text NOT NULL DEFAULT 'error' CHECK (pending_as IN ('error', 'result'));
