-- agent: the rules by which the last listing made its definitions; see tool.Listing. 0: they are the server's own.
ALTER TABLE skills ADD COLUMN listing_generation integer NOT NULL DEFAULT 0;
