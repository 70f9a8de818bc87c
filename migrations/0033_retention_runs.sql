-- retention: the run that deletes at present, whose first event is written, and the rows that no event of a run's end has counted yet.
ALTER TABLE retention_progress
    ADD COLUMN run_id     uuid, -- in the row of the lock; null: no run has deleted anything since the last one ended
    ADD COLUMN unreported bigint NOT NULL DEFAULT 0;
