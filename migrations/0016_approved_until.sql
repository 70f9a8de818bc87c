-- approval: until when an approved call may be sent. Null: for as long as it was given for the decision.
ALTER TABLE approvals ADD COLUMN approved_until timestamptz;
