-- call: until when calls are counted. The column gets another name, so that processes of an earlier version, which know nothing of tools,
-- do not go on counting: they fail at it until they are replaced. This comes first, and the columns of calls last: who counts locks the tables in
-- this order, and calls go on while the rest is done.
ALTER TABLE call_counting RENAME COLUMN counted_until TO until;

-- call: what became of the calls of a tool, by the time they were made in. Level 0 are hours, level 1 days of UTC, and level 2 days
-- again, of all agents together (whose agent_id is 0). A range is read by its days, and by the hours at its ends.
CREATE TABLE call_tool_counts (
    level    smallint NOT NULL,
    since    timestamptz NOT NULL,  -- when the hour or the day begins
    skill_id uuid NOT NULL,
    tool     text NOT NULL,
    agent_id uuid NOT NULL,
    status   text NOT NULL,
    calls    bigint NOT NULL,
    last     timestamptz NOT NULL,  -- when the last one was made
    PRIMARY KEY (level, since, skill_id, tool, agent_id, status)
);

-- call: what was wrong with calls that did not succeed, likewise.
CREATE TABLE call_tool_errors (
    level       smallint NOT NULL,
    since       timestamptz NOT NULL,
    skill_id    uuid NOT NULL,
    tool        text NOT NULL,
    agent_id    uuid NOT NULL,
    status      text NOT NULL,
    code        text NOT NULL,     -- empty: none
    http_status integer NOT NULL,  -- 0: none
    error_line  text NOT NULL,     -- empty: none
    calls       bigint NOT NULL,
    last        timestamptz NOT NULL,
    PRIMARY KEY (level, since, skill_id, tool, agent_id, status, code, http_status, error_line)
);

-- call: how long the calls of a tool took, how large they were, and what HTTP statuses they got, likewise. An element of a histogram holds
-- a bucket in its upper 32 bits, and the calls in it in the lower.
CREATE TABLE call_tool_times (
    level     smallint NOT NULL,
    since     timestamptz NOT NULL,
    skill_id  uuid NOT NULL,
    tool      text NOT NULL,
    agent_id  uuid NOT NULL,
    exchanged bigint NOT NULL,    -- calls that it came to a request of
    sent      bigint NOT NULL,    -- bytes, of all of them
    received  bigint NOT NULL,
    statuses  bigint[] NOT NULL,  -- histogram of HTTP statuses
    called    bigint[] NOT NULL,  -- histogram of the times of the step call
    others    bigint[] NOT NULL,  -- histograms of those of the other steps
    PRIMARY KEY (level, since, skill_id, tool, agent_id)
);

CREATE FUNCTION holdpoint_add_histograms(a bigint[], b bigint[]) RETURNS bigint[] LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (SELECT coalesce(array_agg(bucket << 32 | calls ORDER BY bucket), '{}')
    FROM (SELECT v >> 32 AS bucket, sum(v & 4294967295)::bigint AS calls FROM unnest(a || b) AS v GROUP BY 1) AS s);

-- What was counted before is counted by tool as well.
CREATE TEMPORARY TABLE counted_calls ON COMMIT DROP AS
    SELECT p.level, p.since, p.agent, skill_id, tool, status, coalesce(code, '') AS code, count(*) AS calls, max(created_at) AS last
    FROM calls, LATERAL (VALUES (0, date_bin(interval '1 hour', created_at, 'epoch'::timestamptz), agent_id),
        (1, date_bin(interval '1 day', created_at, 'epoch'::timestamptz), agent_id),
        (2, date_bin(interval '1 day', created_at, 'epoch'::timestamptz), '00000000-0000-0000-0000-000000000000')) AS p(level, since, agent)
    WHERE created_at < (SELECT until FROM call_counting) AND NOT EXISTS (SELECT FROM call_stragglers WHERE call_id = calls.id)
    GROUP BY 1, 2, 3, 4, 5, 6, 7;
INSERT INTO call_tool_counts (level, since, skill_id, tool, agent_id, status, calls, last)
    SELECT level, since, skill_id, tool, agent, status, sum(calls)::bigint, max(last) FROM counted_calls GROUP BY 1, 2, 3, 4, 5, 6;
INSERT INTO call_tool_errors (level, since, skill_id, tool, agent_id, status, code, http_status, error_line, calls, last)
    SELECT level, since, skill_id, tool, agent, status, code, 0, '', calls, last FROM counted_calls
    WHERE status IN ('failed', 'unknown', 'invalid', 'denied');

-- call: what was measured of a call that was sent, and what went wrong with it in a few words.
ALTER TABLE calls
    -- HTTP status, bytes sent, bytes received; then the microseconds of the steps validate, resolve, credentials, call, transform
    -- and log. Each null where there is none; null as a whole: nothing was measured.
    ADD COLUMN measured   bigint[],
    -- Of failed calls: the first line of what is wrong without what differs from call to call, at most 120 characters.
    ADD COLUMN error_line text;
