-- oauthclient: how Holdpoint is authorized to skill servers. What is sealed is encrypted.

-- One for each skill, or for each skill and person.
CREATE TABLE oauth_connections (
    id             uuid PRIMARY KEY,
    skill_id       uuid NOT NULL,
    principal_id   uuid REFERENCES people,  -- null: shared by all
    skill_revision bigint NOT NULL,         -- of the settings that what follows is about
    grant_type     text NOT NULL,
    issuer         text,                    -- the authorization server that issued the tokens
    resource       text,                    -- that they were issued for
    client_id      text,
    scopes_asked   text[] NOT NULL DEFAULT '{}',
    scopes_granted text[] NOT NULL DEFAULT '{}',
    sealed         bytea,                   -- tokens; null: there are none
    expires_at     timestamptz,             -- of the access token; null: it did not say
    generation     bigint NOT NULL DEFAULT 0,  -- grows with every new token
    account        bigint NOT NULL DEFAULT 0,  -- grows when somebody connects, or disconnects
    connected_at   timestamptz,
    connected_by   uuid REFERENCES people,
    refreshed_at   timestamptz,
    need           text,                    -- what somebody has to do first; null: nothing
    need_reason    text,
    need_scopes    text[] NOT NULL DEFAULT '{}',
    issuers        text[] NOT NULL DEFAULT '{}',  -- to choose from
    need_method    text,                    -- of the request that was refused
    challenge      text,                    -- the server's last WWW-Authenticate
    error          text,                    -- the last attempt's; null: it succeeded
    error_at       timestamptz,
    created_at     timestamptz NOT NULL DEFAULT holdpoint_now(),
    updated_at     timestamptz NOT NULL DEFAULT holdpoint_now()
);
CREATE UNIQUE INDEX oauth_connections_key
    ON oauth_connections (skill_id, coalesce(principal_id, '00000000-0000-0000-0000-000000000000'));

-- Clients that were registered dynamically, by authorization server.
CREATE TABLE oauth_clients (
    issuer       text NOT NULL,
    redirect_uri text NOT NULL,
    client_id    text NOT NULL,
    auth_method  text NOT NULL,
    sealed       bytea,  -- the client's secret
    expires_at   timestamptz,
    created_at   timestamptz NOT NULL DEFAULT holdpoint_now(),
    PRIMARY KEY (issuer, redirect_uri)
);

-- Authorization requests whose answer is awaited; each is answered once.
CREATE TABLE oauth_flows (
    state_hash    bytea PRIMARY KEY,
    connection_id uuid NOT NULL REFERENCES oauth_connections ON DELETE CASCADE,
    person_id     uuid NOT NULL REFERENCES people,
    sealed        bytea NOT NULL,  -- what the answer is compared with and completed by
    expires_at    timestamptz NOT NULL
);

-- Our own keys, for private_key_jwt.
CREATE TABLE oauth_keys (
    id         uuid PRIMARY KEY,
    sealed     bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT holdpoint_now()
);

-- Tokens to be revoked where they were issued.
CREATE TABLE oauth_revocations (
    id         uuid PRIMARY KEY,
    sealed     bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT holdpoint_now()
);

-- identity: people whom an operator declared to be the same.
CREATE TABLE person_links (
    person_id uuid PRIMARY KEY REFERENCES people,
    same_as   uuid NOT NULL REFERENCES people,
    linked_at timestamptz NOT NULL DEFAULT holdpoint_now(),
    linked_by uuid REFERENCES people,
    CHECK (person_id <> same_as)
);

-- call: calls that wait, or waited, until their skill is connected.
CREATE TABLE call_connections (
    call_id      uuid PRIMARY KEY REFERENCES calls,
    skill_id     uuid NOT NULL,
    principal_id uuid,
    deadline     timestamptz NOT NULL,  -- of all its waiting for a connection
    reason       text NOT NULL,
    partial      boolean NOT NULL,      -- what is missing is missing for some of the skill's tools only
    created_at   timestamptz NOT NULL DEFAULT holdpoint_now(),
    ended_at     timestamptz            -- null: it waits
);
CREATE INDEX call_connections_waiting ON call_connections (skill_id) WHERE ended_at IS NULL;
