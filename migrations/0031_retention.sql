-- no transaction
-- call: when the arguments and the result of an ended call were deleted. The row itself stays until its own age.
ALTER TABLE calls ADD COLUMN IF NOT EXISTS content_deleted_at timestamptz;

-- call: facts outlive their call, because they have an age of their own.
ALTER TABLE call_facts DROP CONSTRAINT IF EXISTS call_facts_call_id_fkey;

-- file: when the content of an attached file was deleted. Its object is empty then.
ALTER TABLE files ADD COLUMN IF NOT EXISTS content_deleted_at timestamptz;
DROP INDEX CONCURRENTLY IF EXISTS files_stored;
CREATE INDEX CONCURRENTLY files_stored ON files (attached_at) WHERE content_deleted_at IS NULL AND attached_at IS NOT NULL;

-- catalog: when a catalog was stored; null: before this migration. The index finds catalogs without a conversation.
ALTER TABLE catalogues ADD COLUMN IF NOT EXISTS created_at timestamptz;
ALTER TABLE catalogues ALTER COLUMN created_at SET DEFAULT holdpoint_now();
DROP INDEX CONCURRENTLY IF EXISTS conversations_catalogue;
CREATE INDEX CONCURRENTLY conversations_catalogue ON conversations (catalogue_digest);

-- legalhold: rows that nothing may delete.
CREATE TABLE IF NOT EXISTS legal_holds (
    id          uuid PRIMARY KEY,
    agent_id    uuid,        -- null: of every agent, and of none
    from_at     timestamptz, -- null: since the beginning
    to_at       timestamptz, -- exclusive; null: without an end
    reason      text NOT NULL,
    created_by  uuid,
    created_at  timestamptz NOT NULL DEFAULT holdpoint_now(),
    lifted_by   uuid,
    lifted_at   timestamptz, -- null: it is in force
    lift_reason text
);

-- retention: how far each kind of row is deleted.
CREATE TABLE IF NOT EXISTS retention_progress (
    kind    text PRIMARY KEY,
    cursor  uuid,        -- of content: all calls up to this id were examined; null: none
    ran_at  timestamptz, -- the last run that came to its end
    deleted bigint NOT NULL DEFAULT 0,
    oldest  timestamptz  -- of the rows that are left, at the last run
);

-- retention: calls up to the cursor of content that had not ended, or had ended too recently.
CREATE TABLE IF NOT EXISTS retention_skipped (
    call_id uuid PRIMARY KEY
);

-- retention: people whose data are erased. A row without finished_at is work to be done.
CREATE TABLE IF NOT EXISTS person_erasures (
    person_id   uuid PRIMARY KEY,
    pseudonym   text NOT NULL,
    asked_by    uuid,
    asked_at    timestamptz NOT NULL DEFAULT holdpoint_now(),
    step        text NOT NULL DEFAULT 'calls',
    cursor      text,                        -- of the step; null: its beginning
    erased      jsonb NOT NULL DEFAULT '{}', -- rows by kind
    held        jsonb NOT NULL DEFAULT '{}', -- rows that a legal hold kept, by kind
    finished_at timestamptz
);
