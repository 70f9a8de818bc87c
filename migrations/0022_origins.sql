-- audit: the credential of the person or agent who acted, and the address that they came from. Null: Holdpoint itself, or an event of an
-- older version.
ALTER TABLE audit_events
    ADD COLUMN credential_kind text,
    ADD COLUMN credential_id   text,
    ADD COLUMN address         text;
