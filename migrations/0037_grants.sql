-- agent: standing approvals of calls like one that a person saw.
CREATE TABLE grants (
    id           uuid PRIMARY KEY,
    agent_id     uuid NOT NULL,
    principal_id uuid,                  -- null: only calls that name no person
    skill_id     uuid NOT NULL,
    tool         text NOT NULL,
    pin          bytea NOT NULL,
    arguments    json NOT NULL,         -- the matchers; jsonb would write numbers differently
    call_id      uuid NOT NULL,         -- the call that it was made from
    granted_at   timestamptz NOT NULL DEFAULT holdpoint_now(),
    granted_by   uuid NOT NULL,
    granted_via  uuid,                  -- the token or the session of that person; null: another credential
    needs_second boolean NOT NULL,      -- it counts only after another person confirmed it
    second_at    timestamptz,
    second_by    uuid,
    second_via   uuid,
    ends_at      timestamptz NOT NULL,
    uses         bigint,                -- null: any number
    taken        bigint NOT NULL DEFAULT 0, -- only counted with a limit
    used_at      timestamptz,           -- about the last use
    revoked_at   timestamptz,
    revoked_by   uuid
);
CREATE INDEX grants_ends ON grants (ends_at) WHERE revoked_at IS NULL;

-- call: the grant that let the call pass. Null: none.
ALTER TABLE calls ADD COLUMN grant_id uuid;
