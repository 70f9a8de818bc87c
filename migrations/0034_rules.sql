-- agent: every version of every rule of operators. The rules in force are the newest versions that have a spec.
CREATE TABLE rules (
    revision   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       text NOT NULL,
    spec       jsonb,       -- null: the rule was deleted
    changed_at timestamptz NOT NULL DEFAULT holdpoint_now(),
    changed_by uuid         -- a person; null: unknown
);
CREATE INDEX rules_name ON rules (name, revision);

-- call: the rules that matched the call, or failed, when it was judged. Null: none.
ALTER TABLE calls ADD COLUMN rules jsonb;
