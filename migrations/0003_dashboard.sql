-- identity: what sign-ins said of people, what operators gave them, and their browsers' sessions.
ALTER TABLE people
    ADD COLUMN claimed_roles text[] NOT NULL DEFAULT '{}',  -- by the groups of the last sign-in
    ADD COLUMN claimed_teams text[] NOT NULL DEFAULT '{}',
    ADD COLUMN granted_roles text[] NOT NULL DEFAULT '{}',  -- by an operator
    ADD COLUMN granted_teams text[] NOT NULL DEFAULT '{}',
    ADD COLUMN signed_in_at  timestamptz,
    ADD COLUMN blocked_at    timestamptz;  -- set: none of their credentials is valid

CREATE TABLE person_sessions (
    id               uuid PRIMARY KEY,
    person_id        uuid NOT NULL REFERENCES people,
    method           text NOT NULL,   -- oidc, link, token
    roles            text[] NOT NULL DEFAULT '{}',  -- of a one-time link, which is used up
    token_id         uuid REFERENCES person_tokens,  -- by which it was begun, and with which it ends
    client           text NOT NULL,   -- the browser, as it calls itself
    authenticated_at timestamptz NOT NULL DEFAULT holdpoint_now(),  -- when the person proved who they are
    created_at       timestamptz NOT NULL DEFAULT holdpoint_now(),
    expires_at       timestamptz NOT NULL,
    revoked_at       timestamptz
);
CREATE INDEX person_sessions_person ON person_sessions (person_id) WHERE revoked_at IS NULL;

-- agent: whose attention calls want.
ALTER TABLE skills
    ADD COLUMN team        text,
    ADD COLUMN escalate_to text;  -- the team that is asked at half of the deadline
ALTER TABLE agents
    ADD COLUMN team        text,
    ADD COLUMN escalate_to text;

-- agent: how listings of a skill's tools went, over time.
CREATE TABLE skill_listings (
    skill_id    uuid NOT NULL REFERENCES skills,
    at          timestamptz NOT NULL DEFAULT holdpoint_now(),
    error_kind  text,
    error       text,
    tools       integer,
    duration_ms bigint NOT NULL,
    PRIMARY KEY (skill_id, at)
);

-- tool: a definition that an operator refused. While it is the present one, no call of the tool is sent.
ALTER TABLE skill_tools
    ADD COLUMN refused_pin bytea REFERENCES tool_definitions;

-- approval: whom a request concerns, copied from its call, and what became of its deadline.
ALTER TABLE approvals
    ADD COLUMN agent_id        uuid,
    ADD COLUMN principal_id    uuid,
    ADD COLUMN skill_id        uuid,
    ADD COLUMN tool            text,
    ADD COLUMN team            text,
    ADD COLUMN escalate_to     text,
    ADD COLUMN escalated_at    timestamptz,
    ADD COLUMN extended_ms     bigint NOT NULL DEFAULT 0,  -- what reviewers added to the deadline
    ADD COLUMN original_digest bytea;  -- of the call as it was made, when a reviewer edited it
UPDATE approvals a SET agent_id = c.agent_id, principal_id = c.principal_id, skill_id = c.skill_id, tool = c.tool
    FROM calls c WHERE c.id = a.call_id;
ALTER TABLE approvals
    ALTER COLUMN agent_id SET NOT NULL,
    ALTER COLUMN skill_id SET NOT NULL,
    ALTER COLUMN tool SET NOT NULL;
CREATE INDEX approvals_tool ON approvals (skill_id, tool, decided_at) WHERE decided_at IS NOT NULL;

-- The earliest that the decider can have turned to it: when it came, or their decision before, if that was later.
-- Decisions within 400 ms were sent together.
ALTER TABLE approvals ADD COLUMN taken_up_at timestamptz;
UPDATE approvals a SET taken_up_at = greatest(a.created_at, d.before)
    FROM (SELECT call_id, max(decided_at) OVER (PARTITION BY decided_by ORDER BY decided_at
            RANGE BETWEEN UNBOUNDED PRECEDING AND interval '400 ms' PRECEDING) AS before
        FROM approvals WHERE decided_by IS NOT NULL) d
    WHERE d.call_id = a.call_id;
CREATE INDEX approvals_decider ON approvals (decided_by, decided_at) WHERE decided_by IS NOT NULL;

-- call: the arguments as the agent gave them, when a reviewer edited them; null: they are the arguments.
ALTER TABLE calls ADD COLUMN submitted bytea;
CREATE INDEX calls_conversation ON calls (conversation_id, id);

-- call: how many calls there were, by the hour they were made in and what became of them. Charts of a
-- quarter would else read all calls.
CREATE TABLE call_counts (
    hour     timestamptz NOT NULL,
    agent_id uuid NOT NULL,
    skill_id uuid NOT NULL,
    status   text NOT NULL,
    failure  text NOT NULL,  -- of failed calls, else empty
    calls    bigint NOT NULL,
    PRIMARY KEY (hour, agent_id, skill_id, status, failure)
);
CREATE TABLE call_counting (
    singleton     boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    counted_until timestamptz NOT NULL  -- earlier calls are in call_counts, or in call_stragglers
);
CREATE TABLE call_stragglers (  -- had not ended when their hour was counted
    call_id uuid PRIMARY KEY
);

-- ui/live: who has which call on the screen. Nothing is lost with it.
CREATE UNLOGGED TABLE call_viewers (
    call_id   uuid NOT NULL,
    person_id uuid NOT NULL,
    seen_at   timestamptz NOT NULL DEFAULT holdpoint_now(),
    PRIMARY KEY (call_id, person_id)
);

-- notify: where messages about waiting calls go.
CREATE TABLE webhooks (
    id         uuid PRIMARY KEY,
    name       text NOT NULL UNIQUE,
    team       text,            -- null: of every team
    sealed     bytea NOT NULL,  -- the URL, which is a credential
    hint       text NOT NULL,   -- its host
    created_at timestamptz NOT NULL DEFAULT holdpoint_now(),
    created_by uuid,
    sent_at    timestamptz,     -- the last message that was taken
    failed_at  timestamptz,
    error      text,            -- of the last attempt; null: it succeeded
    next_at    timestamptz,     -- no message is sent before
    wake_at    timestamptz      -- when a job will look for what is to be sent
);

CREATE TABLE push_keys (
    id         uuid PRIMARY KEY,
    sealed     bytea NOT NULL,  -- the private key by which push services know this server
    created_at timestamptz NOT NULL DEFAULT holdpoint_now()
);

CREATE TABLE push_subscriptions (
    id            uuid PRIMARY KEY,
    person_id     uuid NOT NULL REFERENCES people,
    session_id    uuid,            -- in which they subscribed, and with whose end it ends
    endpoint_hash bytea NOT NULL UNIQUE,
    sealed        bytea NOT NULL,  -- endpoint and keys of the browser
    client        text NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT holdpoint_now(),
    sent_at       timestamptz,
    error         text,
    next_at       timestamptz,
    wake_at       timestamptz
);
CREATE INDEX push_subscriptions_person ON push_subscriptions (person_id);

-- notify: what a webhook or subscription is to be told; for subscriptions also what they were told and
-- may still show.
CREATE TABLE notices (
    target_id uuid NOT NULL,
    call_id   uuid NOT NULL,
    kind      text NOT NULL,
    event     jsonb NOT NULL,
    queued_at timestamptz NOT NULL DEFAULT holdpoint_now(),
    tried_at  timestamptz,  -- from then on it may have been shown
    sent_at   timestamptz,
    PRIMARY KEY (target_id, call_id, kind)
);
CREATE INDEX notices_call ON notices (call_id);
