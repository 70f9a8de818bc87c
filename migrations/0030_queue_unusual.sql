-- approval: how many arguments of a waiting call were unusual when it was parked or edited.
ALTER TABLE approvals ADD COLUMN unusual integer NOT NULL DEFAULT 0;
