-- converse: the conversations that the built-in loop runs. One row is the whole state of one; nobody's memory is needed to go on.
CREATE TABLE loops (
    conversation_id uuid PRIMARY KEY REFERENCES conversations,
    agent_id        uuid NOT NULL,
    principal_id    uuid,
    handle          text,             -- by which clients of the agent's endpoint come back to it; null: they do not
    status          text NOT NULL CHECK (status IN ('idle', 'due', 'queued', 'running', 'waiting', 'ended')),
    code            text,             -- why it ended
    stopping        boolean NOT NULL DEFAULT false,
    step            bigint NOT NULL DEFAULT 0,  -- grows with every job; a job of another step does nothing
    job_id          bigint,           -- of the step
    attempts        int NOT NULL DEFAULT 0,     -- of the turn that is under way
    seq             bigint NOT NULL DEFAULT 0,  -- of the last entry
    reply           bigint NOT NULL DEFAULT 0,  -- the entry whose calls the model was not told of yet; 0: none
    submitted       boolean NOT NULL DEFAULT false, -- all calls of that reply were made
    open_calls      int NOT NULL DEFAULT 0,     -- of these, that have not ended
    asked           uuid,             -- the call that the next reply answers; null: none
    turns           int NOT NULL DEFAULT 0,
    input_tokens    bigint NOT NULL DEFAULT 0,
    output_tokens   bigint NOT NULL DEFAULT 0,
    cost            double precision NOT NULL DEFAULT 0,
    depth           int NOT NULL DEFAULT 0,     -- how many agents asked each other before this one was
    forked_from     uuid,
    claimed_by      uuid,             -- the instance that runs the turn
    leased_at       timestamptz,      -- when it last said so
    moved_at        timestamptz NOT NULL DEFAULT holdpoint_now(),
    created_at      timestamptz NOT NULL DEFAULT holdpoint_now()
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX loops_handle
    ON loops (agent_id, coalesce(principal_id, '00000000-0000-0000-0000-000000000000'), handle)
    WHERE handle IS NOT NULL AND status <> 'ended';
CREATE INDEX loops_moving ON loops (status, moved_at) WHERE status IN ('due', 'queued', 'running');
CREATE INDEX loops_waiting ON loops (moved_at) WHERE status = 'waiting';
CREATE INDEX loops_agent ON loops (agent_id, conversation_id);

-- What was said and what happened, in order. It only grows.
CREATE TABLE loop_entries (
    conversation_id uuid NOT NULL REFERENCES loops,
    seq             bigint NOT NULL,
    kind            text NOT NULL,
    data            json NOT NULL,
    at              timestamptz NOT NULL DEFAULT holdpoint_now(),
    PRIMARY KEY (conversation_id, seq)
);

-- The calls that replies want made, written with the reply, before any of them is.
CREATE TABLE loop_calls (
    call_id         uuid PRIMARY KEY,
    conversation_id uuid NOT NULL REFERENCES loops,
    seq             bigint NOT NULL,  -- the reply
    ended           boolean NOT NULL DEFAULT false,
    refused         text              -- why no call was made after all; null: one was, or will be
);
CREATE INDEX loop_calls_reply ON loop_calls (conversation_id, seq);

-- Messages that came while a turn was under way.
CREATE TABLE loop_inbox (
    id              uuid PRIMARY KEY,
    conversation_id uuid NOT NULL REFERENCES loops,
    asked           uuid,  -- the call whose result will be the reply; null: none
    data            json NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT holdpoint_now()
);
CREATE INDEX loop_inbox_conversation ON loop_inbox (conversation_id, id);

-- What of a reply has come so far. Nothing is missed when it is lost.
CREATE UNLOGGED TABLE loop_drafts (
    conversation_id uuid PRIMARY KEY,
    step            bigint NOT NULL,
    text            text NOT NULL
);
