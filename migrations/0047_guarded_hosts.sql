-- guarded: the coding agents on machines whose own tools a guard asks about.
CREATE TABLE guarded_hosts (
    id            uuid PRIMARY KEY,           -- chosen by the machine
    agent_id      uuid NOT NULL REFERENCES agents,
    watch_key_hash bytea NOT NULL,            -- of a secret of the machine: without it nothing reports about the guard
    host          text NOT NULL,              -- such as claude-code
    machine       text NOT NULL,              -- the machine's name
    scope         text NOT NULL,              -- machine: settings that users cannot change; user: those of one user
    version       text NOT NULL,              -- of Holdpoint on the machine
    files         text[] NOT NULL,            -- that have the hook
    registered_at timestamptz NOT NULL DEFAULT holdpoint_now(),
    asked_at      timestamptz,                -- the last question of a hook, to a quarter of a minute
    watched_at    timestamptz,                -- the last report of a watcher; null: nothing watches the guard
    every_seconds integer NOT NULL DEFAULT 0, -- the time between two reports
    problems      text[] NOT NULL DEFAULT '{}',
    state         text NOT NULL,              -- unwatched, holds, broken, silent, removed
    state_at      timestamptz NOT NULL DEFAULT holdpoint_now(),
    alert_id      uuid,                       -- of the present alert about the state; null: there is none
    bypasses      bigint NOT NULL DEFAULT 0,  -- calls that ran without a release
    bypassed_at   timestamptz,
    bypass_tool   text,
    bypass_alert  uuid                        -- of the last alert about such calls
);
CREATE INDEX guarded_hosts_agent ON guarded_hosts (agent_id);

-- tool: the agent that named a tool of a coding agent, which bounds the names that one agent can add. Null: it is no such tool, or an older one.
ALTER TABLE skill_tools ADD COLUMN named_by uuid;
