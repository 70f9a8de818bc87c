-- The clock that deadlines and claims go by. Only tests move it.
CREATE TABLE clock_offset (
    singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    value     interval NOT NULL DEFAULT '0'
);
INSERT INTO clock_offset DEFAULT VALUES;

CREATE FUNCTION holdpoint_now() RETURNS timestamptz
    -- plpgsql keeps its plan; an SQL function is planned anew wherever it is called
    LANGUAGE plpgsql VOLATILE
    AS 'BEGIN RETURN clock_timestamp() + (SELECT value FROM clock_offset); END';

-- identity: people, their tokens, their way into the dashboard.
CREATE TABLE people (
    id         uuid PRIMARY KEY,
    issuer     text NOT NULL,
    subject    text NOT NULL,
    name       text NOT NULL,
    email      text,
    created_at timestamptz NOT NULL DEFAULT holdpoint_now(),
    UNIQUE (issuer, subject)
);

CREATE TABLE person_tokens (
    id          uuid PRIMARY KEY,
    person_id   uuid NOT NULL REFERENCES people,
    secret_hash bytea NOT NULL UNIQUE,
    hint        text NOT NULL,
    roles       text[] NOT NULL,
    agents      text[] NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT holdpoint_now(),
    revoked_at  timestamptz
);

CREATE TABLE sign_in_links (
    secret_hash bytea PRIMARY KEY,
    person_id   uuid NOT NULL REFERENCES people,
    roles       text[] NOT NULL,
    expires_at  timestamptz NOT NULL,
    used_at     timestamptz
);

-- ui/login: browser sessions.
CREATE TABLE sessions (
    token  text PRIMARY KEY,
    data   bytea NOT NULL,
    expiry timestamptz NOT NULL
);
CREATE INDEX sessions_expiry ON sessions (expiry);

-- agent: who runs conversations, with what.
CREATE TABLE agents (
    id             uuid PRIMARY KEY,
    name           text NOT NULL,
    instructions   text NOT NULL DEFAULT '',
    model          jsonb,
    secrets        bytea,
    wait_budget_ms bigint NOT NULL,
    revision       bigint NOT NULL DEFAULT 1,
    created_at     timestamptz NOT NULL DEFAULT holdpoint_now(),
    updated_at     timestamptz NOT NULL DEFAULT holdpoint_now(),
    deleted_at     timestamptz
);
CREATE UNIQUE INDEX agents_name ON agents (name) WHERE deleted_at IS NULL;

CREATE TABLE agent_keys (
    id          uuid PRIMARY KEY,
    agent_id    uuid NOT NULL REFERENCES agents,
    secret_hash bytea NOT NULL UNIQUE,
    hint        text NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT holdpoint_now(),
    revoked_at  timestamptz
);
CREATE INDEX agent_keys_agent ON agent_keys (agent_id);

CREATE TABLE skills (
    id                  uuid PRIMARY KEY,
    name                text NOT NULL,
    transport           text NOT NULL,
    settings            jsonb NOT NULL,  -- url, command, names of headers and variables; nothing secret
    secrets             bytea,           -- encrypted: values of headers and variables
    auto_approve        boolean NOT NULL DEFAULT false,
    trust_new_tools     boolean NOT NULL DEFAULT false,
    approval_timeout_ms bigint NOT NULL,
    call_timeout_ms     bigint NOT NULL,
    tools               jsonb NOT NULL DEFAULT '{}',  -- by tool: risk, idempotent, enabled
    revision            bigint NOT NULL DEFAULT 1,
    discovered_at       timestamptz,     -- first successful discovery; the definitions found then were accepted
    listed_at           timestamptz,
    list_error          text,
    list_error_kind     text,
    created_at          timestamptz NOT NULL DEFAULT holdpoint_now(),
    updated_at          timestamptz NOT NULL DEFAULT holdpoint_now(),
    deleted_at          timestamptz
);
CREATE UNIQUE INDEX skills_name ON skills (name) WHERE deleted_at IS NULL;

CREATE TABLE assignments (
    agent_id uuid NOT NULL REFERENCES agents,
    skill_id uuid NOT NULL REFERENCES skills,
    tools    text[],  -- null: all of them
    prefix   text,    -- null: the skill's name
    PRIMARY KEY (agent_id, skill_id)
);
CREATE INDEX assignments_skill ON assignments (skill_id);

-- A catalogue is stored once for all conversations that have it.
CREATE TABLE catalogues (
    digest  bytea PRIMARY KEY,
    entries json NOT NULL
);

CREATE TABLE conversations (
    id               uuid PRIMARY KEY,
    agent_id         uuid NOT NULL REFERENCES agents,
    principal_id     uuid REFERENCES people,
    name             text,   -- null for an MCP session, which is known by its id only
    catalogue_digest bytea REFERENCES catalogues,
    agent_revision   bigint NOT NULL DEFAULT 0,  -- the agent's revision that the catalogue was made from
    problems         jsonb NOT NULL DEFAULT '[]',
    protocol_version text NOT NULL DEFAULT '',
    client           jsonb,
    created_at       timestamptz NOT NULL DEFAULT holdpoint_now(),
    ended_at         timestamptz
);
CREATE UNIQUE INDEX conversations_name
    ON conversations (agent_id, coalesce(principal_id, '00000000-0000-0000-0000-000000000000'), name)
    WHERE name IS NOT NULL AND ended_at IS NULL;
CREATE INDEX conversations_agent ON conversations (agent_id, id);

-- tool: what skill servers offer.
CREATE TABLE tool_definitions (
    pin        bytea PRIMARY KEY,
    definition json NOT NULL,
    first_seen timestamptz NOT NULL DEFAULT holdpoint_now()
);

CREATE TABLE skill_tools (
    skill_id     uuid NOT NULL REFERENCES skills,
    name         text NOT NULL,
    current_pin  bytea NOT NULL REFERENCES tool_definitions,
    accepted_pin bytea REFERENCES tool_definitions,  -- null: never accepted
    first_seen   timestamptz NOT NULL DEFAULT holdpoint_now(),
    changed_at   timestamptz NOT NULL DEFAULT holdpoint_now(),
    removed_at   timestamptz,
    PRIMARY KEY (skill_id, name)
);

-- call: the life of a call.
CREATE TABLE instances (
    id           uuid PRIMARY KEY,
    started_at   timestamptz NOT NULL DEFAULT holdpoint_now(),
    heartbeat_at timestamptz NOT NULL DEFAULT holdpoint_now()
);

CREATE TABLE calls (
    id              uuid PRIMARY KEY,
    agent_id        uuid NOT NULL,
    principal_id    uuid,
    conversation_id uuid,
    skill_id        uuid NOT NULL,
    skill_revision  bigint NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT holdpoint_now(),
    finished_at     timestamptz,
    claimed_at      timestamptz,
    delivered_at    timestamptz,
    claimed_by      uuid,
    gated           boolean NOT NULL,
    status          text NOT NULL CHECK (status IN ('needs_connection', 'parked', 'approved', 'executing', 'succeeded',
                        'failed', 'rejected', 'expired', 'cancelled', 'denied', 'invalid', 'unknown')),
    tool            text NOT NULL,
    exposed_name    text NOT NULL,
    pin             bytea NOT NULL,
    arguments       bytea NOT NULL,
    attach_key      bytea,  -- held while a repeat of this call attaches to it
    code            text,
    failure         text,
    effect          text,
    message         text,
    result          bytea,  -- a JSON-RPC result, or the error object when failure is jsonrpc_error
    late            json,   -- an outcome that came after the claim was taken away: evidence
    resolution      jsonb   -- what an operator said of an unknown outcome
) WITH (fillfactor = 85);
CREATE UNIQUE INDEX calls_attach ON calls (attach_key) WHERE attach_key IS NOT NULL;
CREATE INDEX calls_agent ON calls (agent_id, id);
-- No index speaks of status or claimed_by: so the updates of a call stay within its page.

-- approval: the confirmation queue. An approval has its call's id.
CREATE TABLE approvals (
    call_id     uuid PRIMARY KEY,
    digest      bytea NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT holdpoint_now(),
    deadline    timestamptz NOT NULL,
    decided_at  timestamptz,
    decided_by  uuid,
    status      text NOT NULL CHECK (status IN ('pending', 'approved', 'rejected', 'expired', 'cancelled')),
    rule        text NOT NULL,  -- why the call was parked
    note        text
);
CREATE INDEX approvals_pending ON approvals (deadline, call_id) WHERE status = 'pending';
CREATE INDEX approvals_decided ON approvals (decided_at) WHERE decided_at IS NOT NULL;

-- audit: what happened, never changed, never deleted here.
CREATE TABLE audit_events (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at         timestamptz NOT NULL DEFAULT holdpoint_now(),
    subject_id uuid NOT NULL,
    actor_id   uuid,
    actor_kind text NOT NULL,
    action     text NOT NULL,
    data       jsonb
);
CREATE INDEX audit_events_subject ON audit_events (subject_id);
