-- agent: what an agent's endpoint answers like, and how much is taken from it.
ALTER TABLE agents
    ADD COLUMN error_style      text NOT NULL DEFAULT 'mcp' CHECK (error_style IN ('mcp', 'codes')),
    ADD COLUMN reply_timeout_ms bigint NOT NULL DEFAULT 0 CHECK (reply_timeout_ms >= 0),      -- 0: that of the style
    ADD COLUMN calls_per_minute integer NOT NULL DEFAULT 0 CHECK (calls_per_minute >= 0),     -- 0: no limit
    ADD COLUMN concurrency      integer NOT NULL DEFAULT 0 CHECK (concurrency >= 0);          -- 0: no limit

-- limit: what agents with limits did just now. None of it is missed after a crash of the database.
CREATE UNLOGGED TABLE agent_rates (
    agent_id uuid PRIMARY KEY,
    tat      timestamptz NOT NULL  -- the theoretical arrival time of GCRA: until then the agent has used what it may
) WITH (fillfactor = 50);

CREATE UNLOGGED TABLE agent_slots (
    id       uuid PRIMARY KEY,
    agent_id uuid NOT NULL,
    instance uuid NOT NULL REFERENCES instances ON DELETE CASCADE  -- a process that fell silent holds none
);
CREATE INDEX agent_slots_agent ON agent_slots (agent_id);
CREATE INDEX agent_slots_instance ON agent_slots (instance);
