-- call: the timeline of the database on which an instance last compared it with the calls that it sent. Null: an earlier version of Holdpoint,
-- which does not tell, and is not waited for.
ALTER TABLE instances ADD COLUMN IF NOT EXISTS timeline bigint;
