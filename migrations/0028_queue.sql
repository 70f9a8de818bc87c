-- approval: who works on a pending approval, comments of reviewers. ui/review/queue: saved views and settings of its readers.
ALTER TABLE approvals
    ADD COLUMN destructive boolean NOT NULL DEFAULT false, -- as the tool's server claimed when the call was made
    ADD COLUMN held_by     uuid,                           -- the reviewer who claimed it or was assigned; null: nobody
    ADD COLUMN held_at     timestamptz,
    ADD COLUMN assigned_by uuid,                           -- null: held_by claimed it
    ADD COLUMN comments    integer NOT NULL DEFAULT 0;     -- their number

CREATE TABLE approval_comments (
    call_id    uuid NOT NULL,
    number     integer NOT NULL,
    person_id  uuid NOT NULL,
    text       text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT holdpoint_now(),
    PRIMARY KEY (call_id, number)
);

CREATE TABLE queue_views (
    person_id  uuid NOT NULL,
    name       text NOT NULL,
    query      text NOT NULL, -- of the queue's URL
    PRIMARY KEY (person_id, name)
);

CREATE TABLE queue_settings (
    person_id uuid PRIMARY KEY,
    advance   boolean NOT NULL, -- the next call opens after a decision
    undo      boolean NOT NULL  -- an approval can be taken back for 5 seconds
);
