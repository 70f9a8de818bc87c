-- agent: every version of every approval policy, as of rules. Their revisions come from the same sequence.
CREATE TABLE policies (
    revision   bigint PRIMARY KEY DEFAULT nextval('rules_revision_seq'),
    name       text NOT NULL,
    spec       jsonb,       -- null: the policy was deleted
    changed_at timestamptz NOT NULL DEFAULT holdpoint_now(),
    changed_by uuid         -- a person; null: unknown
);
CREATE INDEX policies_name ON policies (name, revision);

-- The policy of calls that need an approval; null: one reviewer decides.
ALTER TABLE skills ADD COLUMN policy text;

-- approval: the policies that have to be met, as they were when the call was parked; null: one reviewer decides. An earlier version knows no
-- votes, so it must not approve such a call.
ALTER TABLE approvals
    ADD COLUMN policies jsonb,
    ADD COLUMN policy_teams text[], -- that the policies name
    ADD COLUMN policies_met boolean NOT NULL DEFAULT false,
    -- One person approved alone, with a reason. Another one reviews that later.
    ADD COLUMN broke_glass boolean NOT NULL DEFAULT false,
    ADD COLUMN glass_reviewed_by uuid,
    ADD COLUMN glass_reviewed_at timestamptz,
    ADD COLUMN glass_note text,
    ADD CONSTRAINT approvals_policies_met CHECK (policies IS NULL OR status <> 'approved' OR policies_met) NOT VALID; -- all older rows meet it
CREATE INDEX approvals_glass ON approvals (call_id) WHERE broke_glass;

-- approval: what people said about calls with policies. Void votes do not count.
CREATE TABLE approval_votes (
    call_id         uuid NOT NULL,
    number          integer NOT NULL,
    person_id       uuid NOT NULL,
    approves        boolean NOT NULL,
    digest          bytea NOT NULL,
    note            text,
    seen            jsonb,
    voted_at        timestamptz NOT NULL DEFAULT holdpoint_now(),
    credential_kind text,
    credential_id   text,
    address         text,
    void_at         timestamptz,
    PRIMARY KEY (call_id, number)
);
CREATE UNIQUE INDEX approval_votes_person ON approval_votes (call_id, person_id) WHERE void_at IS NULL;
CREATE INDEX approval_votes_by ON approval_votes (person_id);

-- identity: the email address that the identity provider called verified at the last sign-in. Policies name people by it.
ALTER TABLE people ADD COLUMN verified_email text;
