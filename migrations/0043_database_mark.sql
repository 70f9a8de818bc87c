-- call: a mark that tells the database in use from a restored copy of it. A row that was copied was written by another transaction, in another table,
-- database or server than it says.
CREATE TABLE database_mark (
    only_row  boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    place     text   NOT NULL, -- the server's system identifier, and the OIDs of the database and of this table
    writer    bigint NOT NULL, -- the lower 32 bits of the transaction that wrote the row
    timeline  bigint NOT NULL  -- of the server; 0: it does not tell
);
