-- approval: an edit that waits for a second reviewer. While it waits, digest is that of the edit and its editor. edit_envelope is the digest
-- of the edited call's envelope, which becomes the approval's digest when the edit is approved.
ALTER TABLE approvals
    ADD COLUMN edited_by     uuid,
    ADD COLUMN edited_at     timestamptz,
    ADD COLUMN edit_envelope bytea;
