-- agent: skills that somebody is about to register. The spec is sealed: there are secrets in it. A draft is its person's alone, and goes
-- when it is registered, or too old.
CREATE TABLE skill_drafts (
    id         uuid PRIMARY KEY,
    person_id  uuid NOT NULL REFERENCES people ON DELETE CASCADE,
    spec       bytea NOT NULL,
    digest     bytea NOT NULL, -- SHA-256 of the document
    document   bytea NOT NULL, -- empty: none
    updated_at timestamptz NOT NULL DEFAULT holdpoint_now()
);
CREATE INDEX skill_drafts_person ON skill_drafts (person_id, updated_at);
