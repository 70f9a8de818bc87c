-- agent: plans whose deadline has passed are stored as expired. Earlier versions read this status, and do not write it.
ALTER TABLE plans DROP CONSTRAINT plans_status_check, ADD CONSTRAINT plans_status_check
    CHECK (status IN ('pending', 'approved', 'rejected', 'expired', 'cancelled', 'revoked'));
