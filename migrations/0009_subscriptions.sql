-- call: the resources that finished calls returned, which their conversations may read.
CREATE TABLE call_resources (
    conversation_id uuid NOT NULL,
    uri_hash        bytea NOT NULL, -- SHA-256
    skill_id        uuid NOT NULL,
    call_id         uuid NOT NULL,
    PRIMARY KEY (conversation_id, uri_hash, skill_id)
);

-- resource: what sessions want to be told of.
CREATE TABLE resource_subscriptions (
    conversation_id uuid NOT NULL,
    uri_hash        bytea NOT NULL, -- SHA-256
    uri             text NOT NULL,
    skill_id        uuid NOT NULL, -- whose server has it
    PRIMARY KEY (conversation_id, uri_hash)
);
