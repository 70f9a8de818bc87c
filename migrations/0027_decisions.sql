-- approval: what the dashboard measured before a decision, and the time until which the reviewer can take an approval back.
ALTER TABLE approvals
    ADD COLUMN undo_until   timestamptz, -- an approved call is not claimed before; null: at once
    ADD COLUMN seen_rows    integer,     -- arguments that were on the screen; null: not measured
    ADD COLUMN seen_of      integer,     -- of so many
    ADD COLUMN seen_unusual integer,     -- so many of them unusual
    ADD COLUMN seen_ms      bigint,      -- how long the call was on the screen
    ADD COLUMN second_step  boolean;     -- the reviewer confirmed in a second step
