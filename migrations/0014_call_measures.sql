-- call: what was measured of a call that was sent, and what went wrong with it in a few words.
ALTER TABLE calls
    -- HTTP status, bytes sent, bytes received; then the microseconds of the steps validate, resolve, credentials, call, transform
    -- and log. Each null where there is none; null as a whole: nothing was measured.
    ADD COLUMN measured   bigint[],
    -- Of failed calls: the first line of what is wrong without what differs from call to call, at most 120 characters.
    ADD COLUMN error_line text;
