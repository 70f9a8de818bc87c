-- secret: a value that is sealed like all secrets, by which a wrong encryption key is noticed before it does harm.
CREATE TABLE secret_check (
    id     uuid PRIMARY KEY CHECK (id = '00000000-0000-0000-0000-000000000000'), -- one row
    sealed bytea NOT NULL
);
