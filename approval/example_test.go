package approval_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/audit"
)

func ExampleJudge() {
	facts := approval.Facts{AutoApprove: true, Known: true, Accepted: true, EverSeen: true}
	fmt.Println(approval.Judge(facts).Rule)

	facts.HighRisk = true // parks the call although the skill is auto-approved
	verdict := approval.Judge(facts)
	fmt.Println(verdict.Action == approval.Park, verdict.Rule)
	// Output:
	// auto_approved
	// true high_risk
}

// A decision names the digest of the call that the reviewer saw. Any change of the call changes the digest.
func ExampleEnvelope_Digest() {
	call := approval.Envelope{Tool: "send_mail", SkillRevision: 3, Arguments: []byte(`{"to":"ada@example.com"}`)}
	shown := call.Digest()

	call.Arguments = []byte(`{"to":"eve@example.com"}`)
	fmt.Println(call.Digest() == shown)
	// Output: false
}

func ExampleParseDigest() {
	_, err := approval.ParseDigest("not a digest")
	fmt.Println(errors.Is(err, approval.ErrDigestMismatch))
	// Output: true
}

// The caller inserts the approval in the transaction that parks its call.
func ExampleInsert() {
	park := func(ctx context.Context, tx pgx.Tx, callID, agentID, skillID uuid.UUID, arguments []byte) (time.Time, error) {
		envelope := approval.Envelope{ApprovalID: callID, AgentID: agentID, SkillID: skillID, Tool: "send_mail", Arguments: arguments}
		deadlines, err := approval.Insert(ctx, tx, []approval.Request{{
			CallID: callID, AgentID: agentID, SkillID: skillID, Tool: "send_mail",
			Digest: envelope.Digest(), Rule: approval.RuleGated, Timeout: 15 * time.Minute,
		}})
		return deadlines[callID], err
	}
	_ = park
}

// A decision takes the row's lock, compares the digest and the deadline, and settles the approval in the same transaction.
func ExampleQueueSettle() {
	approve := func(ctx context.Context, pool *pgxpool.Pool, callID, reviewer uuid.UUID, shown approval.Digest) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			pending, now, err := approval.Lock(ctx, tx, callID)
			settlement := approval.Settlement{Status: approval.Approved, By: reviewer, Note: "looks right"}
			switch {
			case err != nil:
				return err
			case pending.Status == approval.Pending && !pending.Deadline.After(now):
				settlement = approval.Settlement{Status: approval.Expired}
			case pending.Digest != shown:
				return approval.ErrDigestMismatch
			}
			batch := &pgx.Batch{}
			approval.QueueSettle(batch, "true", &pending, settlement, audit.Origin{})
			return tx.SendBatch(ctx, batch).Close() // a *ConflictError if another decision was first
		})
	}
	_ = approve
}

// The next page of a reviewer's queue begins after the last approval of this one.
func ExampleQueue() {
	list := func(ctx context.Context, pool *pgxpool.Pool, teams []string) error {
		filter := approval.QueueFilter{Teams: teams, Limit: 50}
		for {
			page, err := approval.Queue(ctx, pool, filter)
			if err != nil || len(page) == 0 {
				return err
			}
			filter.After = filter.PositionOf(&page[len(page)-1])
		}
	}
	_ = list
}
