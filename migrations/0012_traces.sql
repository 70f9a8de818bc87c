-- call: the trace that a call belongs to, and its own span: see internal/telemetry. Null for most: it is stored only
-- where spans are recorded, or where a client handed its trace in.
ALTER TABLE calls ADD COLUMN trace bytea;

-- converse: since when a conversation works on a message, and the spans of that work and of its turn; null: it does not, and there
-- are none.
ALTER TABLE loops ADD COLUMN run_from timestamptz, ADD COLUMN trace json;
