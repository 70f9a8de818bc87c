-- dualcontrol: changes that a second operator approves or rejects.
CREATE TABLE changes (
    id          uuid PRIMARY KEY,
    kind        text NOT NULL,      -- of the thing that it changes: skill, tool, rule, person, invitation
    subject     uuid NOT NULL,      -- the thing
    name        text NOT NULL,
    action      text NOT NULL,      -- create, update, delete
    fields      jsonb NOT NULL,     -- the differences, without secrets
    sealed      bytea,              -- what is applied, encrypted; null once the change has ended
    proposed_by uuid NOT NULL,
    proposed_at timestamptz NOT NULL DEFAULT holdpoint_now(),
    expires_at  timestamptz NOT NULL,
    status      text NOT NULL DEFAULT 'pending',  -- approved, rejected, replaced, stale; pending after expires_at: expired
    decided_by  uuid,
    decided_at  timestamptz,
    note        text
);
CREATE UNIQUE INDEX changes_pending ON changes (kind, subject) WHERE status = 'pending';
CREATE TABLE controls (  -- settings of servers that take two people, and since when they are on
    name  text PRIMARY KEY,
    since timestamptz NOT NULL DEFAULT holdpoint_now()
);

-- identity: the calls that a reviewer may decide, and which of two roles counts where they are separate.
ALTER TABLE people
    ADD COLUMN review_limit jsonb,  -- null: all calls
    ADD COLUMN sole_role    text;   -- the last role that the person had alone
UPDATE people SET sole_role = (claimed_roles || granted_roles)[1]
    WHERE (SELECT count(DISTINCT role) FROM unnest(claimed_roles || granted_roles) AS role) = 1;
ALTER TABLE invitations
    ADD COLUMN review_limit jsonb,
    ADD COLUMN waits        boolean NOT NULL DEFAULT false;  -- for a second operator
