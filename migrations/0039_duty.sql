-- identity: who stands in for whom, and who is on call. approval: the steps of an approval's escalation.
CREATE TABLE absences (
    id            uuid PRIMARY KEY,
    person_id     uuid NOT NULL REFERENCES people,
    substitute_id uuid REFERENCES people,          -- null: nobody stands in
    starts_at     timestamptz NOT NULL,
    ends_at       timestamptz NOT NULL CHECK (ends_at > starts_at),
    created_at    timestamptz NOT NULL DEFAULT holdpoint_now(),
    created_by    uuid
);
CREATE INDEX absences_person ON absences (person_id, ends_at);
CREATE INDEX absences_substitute ON absences (substitute_id, ends_at);

CREATE TABLE delegations (
    id         uuid PRIMARY KEY,
    team       text NOT NULL,
    person_id  uuid NOT NULL REFERENCES people,
    member_id  uuid REFERENCES people,             -- the member who gave it, and with whose membership it ends; null: an operator gave it
    ends_at    timestamptz NOT NULL,
    created_at timestamptz NOT NULL DEFAULT holdpoint_now(),
    created_by uuid
);
CREATE INDEX delegations_person ON delegations (person_id, ends_at);

-- The shifts of on-call schedules, as their calendars had them last.
CREATE TABLE shifts (
    team      text NOT NULL,
    number    integer NOT NULL,
    starts_at timestamptz NOT NULL,
    ends_at   timestamptz NOT NULL,
    label     text NOT NULL,                       -- of the calendar
    names     jsonb NOT NULL,                      -- lists of e-mail addresses and names, the most specific list first
    people    uuid[] NOT NULL,                     -- whom they name
    PRIMARY KEY (team, number)
);
CREATE INDEX shifts_team ON shifts (team, ends_at);

-- oncall: where the calendars of teams are.
CREATE TABLE schedules (
    id           uuid PRIMARY KEY,
    team         text NOT NULL UNIQUE,
    sealed       bytea NOT NULL,                   -- the URL, which is a credential
    hint         text NOT NULL,                    -- its host
    created_at   timestamptz NOT NULL DEFAULT holdpoint_now(),
    created_by   uuid,
    etag         text NOT NULL DEFAULT '',
    modified     text NOT NULL DEFAULT '',         -- the header Last-Modified of the last answer
    fetched_at   timestamptz,                      -- when the calendar was read last
    checked_at   timestamptz,                      -- when it was read, or had not changed
    failed_since timestamptz,                      -- null: the last attempt succeeded
    error        text,                             -- of the last attempt
    next_at      timestamptz NOT NULL DEFAULT holdpoint_now()
);

ALTER TABLE agents ADD COLUMN escalation jsonb;    -- steps; null: none besides escalate_to

ALTER TABLE approvals
    ADD COLUMN escalation      jsonb,              -- steps; null: none besides escalate_to
    ADD COLUMN escalated_times timestamptz[],      -- of the steps that were taken
    ADD COLUMN asked_teams     text[],             -- by these steps
    ADD COLUMN asked_people    uuid[],
    ADD COLUMN asked_at        timestamptz;        -- when people were asked again; null: when the approval was made
