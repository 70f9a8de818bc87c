-- callback: where an operator has an agent's calls told of, and by which secrets what is sent there is signed.
CREATE TABLE callbacks (
    id              uuid PRIMARY KEY,
    agent_id        uuid NOT NULL REFERENCES agents,
    name            text NOT NULL,
    sealed          bytea NOT NULL,  -- the URL, which may be a credential
    hint            text NOT NULL,   -- its host
    created_at      timestamptz NOT NULL DEFAULT holdpoint_now(),
    created_by      uuid,
    disabled_at     timestamptz,     -- set: nothing is sent, nor kept for later
    disabled_reason text,            -- operator, gone
    sent_at         timestamptz,     -- the last message that was taken
    failed_at       timestamptz,
    error           text,            -- of the last attempt; null: it succeeded
    UNIQUE (agent_id, name)
);

CREATE TABLE callback_secrets (
    id          uuid PRIMARY KEY,
    callback_id uuid NOT NULL REFERENCES callbacks ON DELETE CASCADE,
    sealed      bytea NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT holdpoint_now(),
    expires_at  timestamptz  -- null: it is the present one
);
CREATE INDEX callback_secrets_callback ON callback_secrets (callback_id);

-- What is to be sent, and the log of what was. Rows are written in the transactions of calls, which nothing here may
-- refuse: so no reference to callbacks, of which one may be deleted at that moment.
CREATE TABLE callback_deliveries (
    seq             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id              uuid NOT NULL UNIQUE,  -- the webhook-id
    callback_id     uuid NOT NULL,
    type            text NOT NULL,
    at              timestamptz NOT NULL DEFAULT holdpoint_now(),
    call_id         uuid,   -- null: a test, as all that follows
    conversation_id uuid,
    tool            text,
    status          text,
    code            text,
    state           text NOT NULL DEFAULT 'due',  -- due: it has no job yet; pending: it has one; delivered; failed
    round           integer NOT NULL DEFAULT 0,   -- grows when it is sent again; jobs of earlier rounds do nothing
    attempts        integer NOT NULL DEFAULT 0,
    not_before      timestamptz,  -- the receiver asked for that, or an operator for another attempt
    error           text          -- why it failed, or the last attempt did
);
CREATE INDEX callback_deliveries_callback ON callback_deliveries (callback_id, seq);
CREATE INDEX callback_deliveries_due ON callback_deliveries (seq) WHERE state = 'due';

CREATE TABLE callback_attempts (
    delivery_id uuid NOT NULL REFERENCES callback_deliveries (id) ON DELETE CASCADE,
    number      integer NOT NULL,
    at          timestamptz NOT NULL DEFAULT holdpoint_now(),  -- its end
    duration_ms bigint NOT NULL,
    http_status integer,  -- null: there was no answer
    error       text,     -- null: it was taken
    PRIMARY KEY (delivery_id, number)
);
