-- agent: lists of calls to come, which agents submit and a person approves as grants of one use each.
CREATE TABLE plans (
    id           uuid PRIMARY KEY,
    agent_id     uuid NOT NULL,
    principal_id uuid,                  -- null: its calls name no person
    title        text NOT NULL,
    calls        json NOT NULL,         -- jsonb would write numbers differently
    status       text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'approved', 'rejected', 'cancelled', 'revoked')),
    created_at   timestamptz NOT NULL DEFAULT holdpoint_now(),
    deadline     timestamptz NOT NULL,  -- a pending plan is expired from then on
    decided_at   timestamptz,
    decided_by   uuid,
    note         text NOT NULL DEFAULT '', -- of the decision
    struck       int[] NOT NULL DEFAULT '{}', -- the indexes of calls that the decision left out
    ends_at      timestamptz,           -- of an approved plan
    closed_at    timestamptz,           -- when it was cancelled or revoked
    closed_by    uuid                   -- null: not by a person
);
CREATE INDEX plans_pending ON plans (deadline) WHERE status = 'pending';

-- agent: the plan that a grant belongs to, the index of its call there, and the call that used it. A plan's grants have no call_id.
ALTER TABLE grants ADD COLUMN plan_id uuid, ADD COLUMN plan_call int, ADD COLUMN used_call uuid, ALTER COLUMN call_id DROP NOT NULL;
CREATE INDEX grants_plan ON grants (plan_id, plan_call) WHERE plan_id IS NOT NULL;

-- agent: whether the agent may submit plans.
ALTER TABLE agents ADD COLUMN plans boolean NOT NULL DEFAULT false;
