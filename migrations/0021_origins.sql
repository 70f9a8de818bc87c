-- audit: the credential of whoever acted, and the address that they came from. Null: Holdpoint itself, or an event of an
-- older version.
ALTER TABLE audit_events
    ADD COLUMN credential_kind text,
    ADD COLUMN credential_id   text,
    ADD COLUMN address         text;

-- approval: likewise of the decision.
ALTER TABLE approvals
    ADD COLUMN decided_credential_kind text,
    ADD COLUMN decided_credential_id   text,
    ADD COLUMN decided_address         text;
