-- agent: how far a conversation that Holdpoint runs itself may go.
ALTER TABLE agents
    ADD COLUMN conversation_turns   integer NOT NULL DEFAULT 0 CHECK (conversation_turns >= 0),        -- 0: the default
    ADD COLUMN conversation_tokens  bigint NOT NULL DEFAULT 0 CHECK (conversation_tokens >= 0),        -- 0: no limit
    ADD COLUMN conversation_cost    double precision NOT NULL DEFAULT 0 CHECK (conversation_cost >= 0), -- 0: no limit
    ADD COLUMN conversation_time_ms bigint NOT NULL DEFAULT 0 CHECK (conversation_time_ms >= 0);       -- 0: no limit
