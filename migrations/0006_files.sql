-- file: what agents upload, to attach it to calls. Content is not here, but in the store that the operator chose.
CREATE TABLE files (
    id              uuid PRIMARY KEY,
    agent_id        uuid NOT NULL,
    principal_id    uuid,
    filename        text NOT NULL,
    content_type    text NOT NULL,
    size            bigint NOT NULL,          -- as declared, and as uploaded
    declared_sha256 bytea,                    -- null: nothing was declared
    upload_hash     bytea NOT NULL UNIQUE,    -- SHA-256 of what lets one upload it
    upload_until    timestamptz NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT holdpoint_now(),
    uploaded_at     timestamptz,
    object          text,                     -- key in the store
    sha256          bytea,
    attached_at     timestamptz,              -- first; from then on it is kept
    CHECK ((uploaded_at IS NULL) = (object IS NULL) AND (uploaded_at IS NULL) = (sha256 IS NULL)),
    CHECK (attached_at IS NULL OR uploaded_at IS NOT NULL)
);
CREATE INDEX files_unattached ON files (created_at) WHERE attached_at IS NULL;
CREATE INDEX files_owner ON files (agent_id) WHERE attached_at IS NULL;

-- Objects that are, or may be, in the store: noted before the first byte is written, removed when it is deleted there.
CREATE TABLE file_objects (
    object     text PRIMARY KEY,
    file_id    uuid NOT NULL,
    created_at timestamptz NOT NULL DEFAULT holdpoint_now()
);
CREATE INDEX file_objects_file ON file_objects (file_id);

-- Files as they were attached to calls: what reviewers see and servers get.
CREATE TABLE call_files (
    call_id         uuid NOT NULL,
    position        int NOT NULL,
    file_id         uuid NOT NULL REFERENCES files,
    filename        text NOT NULL,
    content_type    text NOT NULL,
    sha256          bytea NOT NULL,
    capability_hash bytea NOT NULL,           -- SHA-256 of what is in the URL that the skill's server gets
    PRIMARY KEY (call_id, position)
);
CREATE INDEX call_files_file ON call_files (file_id);

-- call: the arguments as the agent gave them, of calls with files: a repeat is known by them. Null: call_files has nothing of it.
ALTER TABLE calls ADD COLUMN made bytea;
