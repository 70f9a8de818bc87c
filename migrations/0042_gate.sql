-- call: calls that their callers execute after Holdpoint released them.
ALTER TABLE calls ADD COLUMN gate_host text; -- the program that executes the call, empty if not known; null: Holdpoint sends it

-- The requests of callers that gave their own name. One call may have several: repeats attach to it.
CREATE TABLE gate_requests (
    key     bytea PRIMARY KEY,  -- of the agent, the principal, the skill and the caller's name
    call_id uuid NOT NULL REFERENCES calls ON DELETE CASCADE,
    sum     bytea NOT NULL,     -- of the tool, the arguments and the directory
    left_at timestamptz         -- when the caller said that it no longer waits
);
CREATE INDEX gate_requests_call ON gate_requests (call_id);

-- Each call is released once.
CREATE TABLE gate_releases (
    call_id     uuid PRIMARY KEY REFERENCES calls ON DELETE CASCADE,
    request_key bytea,          -- of the request that it was released to; null: a request without a name
    released_at timestamptz NOT NULL DEFAULT holdpoint_now(),
    until       timestamptz NOT NULL -- the caller must have begun before
);
