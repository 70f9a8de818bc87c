-- call: who calls are made for, and what they may be told and asked while their servers work on them.
ALTER TABLE calls
    ADD COLUMN caller      jsonb,        -- null: nobody listens, and nothing may be asked
    ADD COLUMN keyed_until timestamptz,  -- of calls with an idempotency key: until then the attach key is held, delivered or not
    ADD COLUMN keyed_sum   bytea;        -- of their arguments as they were made: the key is for no others

-- call: what servers ask while they work on calls.
CREATE TABLE call_questions (
    call_id  uuid NOT NULL,
    number   integer NOT NULL,
    key      text NOT NULL,
    method   text NOT NULL,  -- elicitation/create, sampling/createMessage, roots/list
    params   bytea,
    asked_at timestamptz NOT NULL DEFAULT holdpoint_now(),
    ended_at timestamptz,    -- answered, or of no interest any more
    answer   bytea,          -- a JSON-RPC result, or
    error    bytea,          -- the error that the caller answered with
    PRIMARY KEY (call_id, number)
);

-- agent: what log messages a session wants (logging/setLevel).
ALTER TABLE conversations ADD COLUMN log_level text;
