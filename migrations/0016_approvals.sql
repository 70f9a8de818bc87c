-- approval: until when an approved call may be sent, and an edit that waits for a second reviewer. While the edit waits, digest is that of the
-- edit and its editor.
ALTER TABLE approvals
    ADD COLUMN validity_ms    bigint,       -- of the approval, from the decision on. Null: as long as was given for the decision
    ADD COLUMN approved_until timestamptz,  -- instead of that, for a call that waited after its approval
    ADD COLUMN edited_by      uuid,
    ADD COLUMN edited_at      timestamptz,
    ADD COLUMN edit_envelope  bytea,        -- of the edited call; becomes the approval's digest when the edit is approved
    ADD COLUMN decided_credential_kind text, -- of the person who decided; null, as the next two, also of older decisions
    ADD COLUMN decided_credential_id   text,
    ADD COLUMN decided_address         text; -- that the decision came from
