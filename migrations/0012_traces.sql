-- call: the trace that a call belongs to, and its own span: see internal/telemetry. Null for most: it is stored only
-- where spans are recorded, or where a client handed its trace in.
ALTER TABLE calls ADD COLUMN trace bytea;
