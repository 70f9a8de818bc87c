-- agent: what an agent's endpoint answers like, and how much is taken from it.
ALTER TABLE agents
    ADD COLUMN error_style      text NOT NULL DEFAULT 'mcp' CHECK (error_style IN ('mcp', 'codes')),
    ADD COLUMN reply_timeout_ms bigint NOT NULL DEFAULT 0 CHECK (reply_timeout_ms >= 0),      -- 0: that of the style
    ADD COLUMN calls_per_minute integer NOT NULL DEFAULT 0 CHECK (calls_per_minute >= 0),     -- 0: no limit
    ADD COLUMN concurrency      integer NOT NULL DEFAULT 0 CHECK (concurrency >= 0);          -- 0: no limit
