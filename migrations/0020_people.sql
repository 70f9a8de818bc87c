-- identity: people come by invitation, and their tokens end.
ALTER TABLE people
    ADD COLUMN invited_by uuid REFERENCES people,               -- whose invitation made this local person known
    ADD COLUMN granted_agents text[] NOT NULL DEFAULT '{}',     -- that they may act as, besides those of their roles
    ADD COLUMN first      boolean NOT NULL DEFAULT false;       -- made by the bootstrap token, which is the same person
CREATE UNIQUE INDEX people_first ON people (first) WHERE first;

-- A local person whom another person made known was never verified by anybody else.
UPDATE people SET invited_by = (
    SELECT e.actor_id FROM audit_events e JOIN people AS inviter ON inviter.id = e.actor_id
    WHERE e.subject_id = people.id AND e.action = 'person.created' AND e.actor_kind = 'person' AND e.actor_id <> people.id
    ORDER BY e.id LIMIT 1)
WHERE issuer = 'holdpoint';

-- Tokens that exist end 90 days after this migration.
ALTER TABLE person_tokens
    ADD COLUMN expires_at timestamptz NOT NULL DEFAULT holdpoint_now() + interval '90 days';
CREATE INDEX person_tokens_expiring ON person_tokens (expires_at) WHERE revoked_at IS NULL;

CREATE TABLE invitations (
    id          uuid PRIMARY KEY,
    secret_hash bytea NOT NULL UNIQUE,
    hint        text NOT NULL,
    name        text NOT NULL,      -- of the local person, or what the inviter calls them
    issuer      text,               -- null: the person becomes a local one
    subject     text,
    email       text,
    roles       text[] NOT NULL,
    agents      text[] NOT NULL,    -- that the local person's first token may act as
    invited_by  uuid REFERENCES people,
    created_at  timestamptz NOT NULL DEFAULT holdpoint_now(),
    expires_at  timestamptz NOT NULL,
    redeemed_at timestamptz,
    redeemed_by uuid REFERENCES people,
    revoked_at  timestamptz,
    CHECK (issuer IS NULL AND subject IS NULL AND email IS NULL OR issuer IS NOT NULL AND (subject IS NULL) <> (email IS NULL))
);
