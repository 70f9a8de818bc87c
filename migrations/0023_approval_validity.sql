-- approval: how long an approved call may be sent after its decision, in milliseconds. Null: as long as the decision could take.
ALTER TABLE approvals ADD COLUMN validity_ms bigint;
