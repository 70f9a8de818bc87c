-- agent: how many of an agent's calls may wait for people, for each person that they are made for.
ALTER TABLE agents
    ADD COLUMN pending integer NOT NULL DEFAULT 0 CHECK (pending >= 0);  -- 0: the default
