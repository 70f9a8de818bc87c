-- agent: the label under which files declare a part of the registry, so that applying them can delete what they no longer declare.
CREATE TABLE labels (
    kind  text NOT NULL, -- skill, agent, rule or policy
    name  text NOT NULL,
    label text NOT NULL,
    PRIMARY KEY (kind, name)
);
