-- call: what approved calls had in their arguments. A waiting call is compared with it.
CREATE TABLE call_facts (
    call_id  uuid PRIMARY KEY REFERENCES calls,
    agent_id uuid NOT NULL,
    skill_id uuid NOT NULL,
    tool     text NOT NULL,
    added_at timestamptz NOT NULL DEFAULT holdpoint_now(),
    facts    bytea NOT NULL -- JSON, see package evidence; at most a few KB, without secrets
);
CREATE INDEX call_facts_tool ON call_facts (skill_id, tool, added_at DESC);
