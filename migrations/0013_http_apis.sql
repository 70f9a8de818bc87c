-- agent: OpenAPI documents that were given by value, by their SHA-256. One that no skill has any more is deleted.
CREATE TABLE skill_documents (
    digest   bytea PRIMARY KEY,
    document bytea NOT NULL
);

-- call: the very request that is sent, secrets masked; null: there is nothing to tell but the arguments. It is part of what is decided about.
ALTER TABLE calls ADD COLUMN request bytea;

-- agent: tools that the last listing of a skill left out, each with the reason.
ALTER TABLE skills ADD COLUMN skipped jsonb NOT NULL DEFAULT '[]';
