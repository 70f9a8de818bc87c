-- call: who decides about what servers ask while they work on calls, and what was decided.
ALTER TABLE call_questions
    ADD COLUMN status      text NOT NULL DEFAULT 'asked' CHECK (status IN
        ('asked', 'pending', 'answered', 'declined', 'unanswered', 'rejected', 'expired', 'withdrawn')),
    ADD COLUMN review      text CHECK (review IN ('question', 'answer')), -- what a reviewer decides about; null: nothing
    ADD COLUMN timeout_ms  bigint NOT NULL DEFAULT 0,                     -- for the client's answer, and again for the decision
    ADD COLUMN deadline    timestamptz,                                   -- of the client while asked, of the reviewer while pending
    ADD COLUMN answered_at timestamptz,
    ADD COLUMN digest      bytea,                                         -- of what a reviewer decides about, once it is pending
    ADD COLUMN decided_at  timestamptz,
    ADD COLUMN decided_by  uuid,
    ADD COLUMN note        text;

UPDATE call_questions SET answered_at = CASE WHEN answer IS NOT NULL OR error IS NOT NULL THEN ended_at END,
    status = CASE WHEN ended_at IS NULL THEN 'asked' WHEN answer IS NULL AND error IS NULL THEN 'withdrawn' ELSE 'answered' END;

CREATE INDEX call_questions_pending ON call_questions (deadline) WHERE status = 'pending';
