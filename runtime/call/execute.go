package call

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/failpoint"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// ExecuteQueue is the River queue of approved calls.
const ExecuteQueue = "execute"

// executeArgs is the job that sends an approved call. More than one for the same
// call do no harm: the claim lets one through.
type executeArgs struct {
	CallID uuid.UUID `json:"call_id"`
}

func (executeArgs) Kind() string { return "call_execute" }

// InsertOpts implements [river.JobArgsWithInsertOpts].
func (executeArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: ExecuteQueue}
}

type executeWorker struct {
	river.WorkerDefaults[executeArgs]
	service *Service
}

// crowdedDelay is how long a call waits when its skill has as many in flight as it may.
const crowdedDelay = time.Second

// Timeout leaves the bounding to the call's own timeout; listing and database come on top.
func (w *executeWorker) Timeout(*river.Job[executeArgs]) time.Duration { return 24 * time.Hour }

// NextRetry: what fails here is the database, which should be back soon.
func (w *executeWorker) NextRetry(job *river.Job[executeArgs]) time.Time {
	return w.service.Now().Add(min(time.Duration(job.Attempt)*time.Second, 30*time.Second))
}

func (w *executeWorker) Work(ctx context.Context, job *river.Job[executeArgs]) error {
	s, id := w.service, job.Args.CallID
	if !s.flights.add(id, s.pulse.currentRun()) {
		return nil // this process is at it
	}
	defer s.flights.release(id)
	c, err := s.load(ctx, id)
	if errors.Is(err, ErrNotFound) {
		return river.JobCancel(err)
	}
	if err != nil {
		return err
	}
	if c.Status == Executing && c.claimedBy == s.Instance { // our claim, whose answer was lost
		return s.giveBack(ctx, id, c.Gated)
	}
	if c.Status != Approved {
		return nil
	}
	if !s.gates.enter(c.SkillID) {
		return river.JobSnooze(crowdedDelay)
	}
	defer s.gates.leave(c.SkillID)
	return s.execute(ctx, c)
}

// execute checks again all that the decision was about, claims the call, and sends it.
func (s *Service) execute(ctx context.Context, c *Call) error {
	began := s.Now()
	skill, server, definition, refusal, err := s.recheck(c.trace.In(ctx), c)
	if err != nil {
		return fmt.Errorf("check call %s again: %w", c.ID, err)
	}
	if refusal != nil {
		if refusal.wait != nil {
			if suspended, err := s.suspend(ctx, c, *refusal.wait); suspended || err != nil {
				return err
			}
		}
		_, err := s.endUnsent(ctx, s.Pool, onRefuse, c.ID, refusal.outcome)
		return err
	}
	s.took(c, StepValidate, began)
	failpoint.Hit(failpoint.ExecuteBeforeClaim)
	began = s.Now()
	ours, err := s.claim(ctx, c)
	if err != nil || !ours {
		return err
	}
	s.took(c, StepLog, began)
	s.send(c, skill, server, definition)
	return nil
}

// refusal is why a call is not sent.
type refusal struct {
	outcome
	wait *connectWait // not yet, rather than not at all

	problems []tool.Problem // of invalid arguments, those that the message lists
}

// recheck compares what was approved with what is: the envelope, the tool's
// definition, the skill, the assignment. The answers come from the database, the definition from a
// listing that is fresh enough.
func (s *Service) recheck(ctx context.Context, c *Call) (*agent.Skill, tool.Server, tool.Definition, *refusal, error) {
	none := func(r *refusal, err error) (*agent.Skill, tool.Server, tool.Definition, *refusal, error) {
		return nil, tool.Server{}, tool.Definition{}, r, err
	}
	decided, err := approval.Get(ctx, s.Pool, c.ID)
	if err != nil {
		return none(nil, err)
	}
	digest := c.envelope().Digest()
	if decided.Status != approval.Approved || subtle.ConstantTimeCompare(digest[:], decided.Digest[:]) != 1 {
		return none(denied(CodeEnvelopeChanged, "the call is not what was approved"), nil)
	}
	if r, err := s.recheckFiles(ctx, c); r != nil || err != nil {
		return none(r, err)
	}
	// What is remembered of the skill is enough to list its tools. The database has the last word.
	known, listed, err := s.Agents.Skill(ctx, c.SkillID)
	if errors.Is(err, agent.ErrNotFound) {
		return none(denied(CodeSkillChanged, "the skill was removed"), nil)
	}
	if err != nil {
		return none(nil, err)
	}
	if r, err := s.recheckPin(ctx, c, listed.For(c.PrincipalID), known); r != nil || err != nil {
		return none(r, err)
	}
	definition, err := s.Discovery.Definition(ctx, c.Pin)
	if err != nil {
		return none(nil, err)
	}
	skill, server, r, err := s.recheckSkill(ctx, c)
	if r != nil || err != nil {
		return none(r, err)
	}
	if r, err := s.recheckPeople(ctx, c, &decided); r != nil || err != nil {
		return none(r, err)
	}
	server = server.For(c.PrincipalID)
	if r, err := s.recheckRequest(ctx, c, skill, server, definition); r != nil || err != nil {
		return none(r, err)
	}
	return skill, server, definition, nil, nil
}

// recheckPin asks the server when what is known of it is too old.
func (s *Service) recheckPin(ctx context.Context, c *Call, server tool.Server, skill *agent.Skill) (*refusal, error) {
	pins, err := s.Discovery.Recheck(ctx, server, skill.TrustNewTools, c.Tool)
	if failure, ok := errors.AsType[*tool.Failure](err); ok {
		r := &refusal{outcome: outcome{
			status: Failed, code: string(failure.Kind), failure: failure.Kind, effect: tool.EffectNone,
			message: "the tool's definition could not be checked before sending: " + failure.Message,
		}}
		if failure.Connect != nil {
			r.wait = &connectWait{failure.Connect.Reason, skill.ApprovalTimeout, failure.Connect.Partial}
		}
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	if !pins.Known {
		return denied(CodeDefinitionChanged, "the skill server no longer offers this tool"), nil
	}
	if pins.Current != c.Pin {
		return denied(CodeDefinitionChanged, "the tool's definition changed after this call was made"), nil
	}
	if pins.IsRefused() {
		return denied(CodeDefinitionChanged, definitionRefused), nil
	}
	return nil, nil
}

// recheckSkill reads, from the database and right before the claim (listing may
// have taken long), the skill as it is now and whether the agent may still use the tool.
func (s *Service) recheckSkill(ctx context.Context, c *Call) (*agent.Skill, tool.Server, *refusal, error) {
	skill, server, err := s.Agents.FreshSkill(ctx, c.SkillID)
	switch {
	case errors.Is(err, agent.ErrNotFound):
		return nil, server, denied(CodeSkillChanged, "the skill was removed"), nil
	case err != nil:
		return nil, server, nil, err
	case skill.Revision != c.SkillRevision:
		return nil, server, denied(CodeSkillChanged, "the skill was changed after this call was made"), nil
	}
	assigned, err := s.Agents.Assigned(ctx, c.AgentID, c.SkillID, c.Tool)
	if err != nil {
		return nil, server, nil, err
	}
	if !assigned {
		return nil, server, denied(CodeAssignmentRevoked, "the agent may no longer use this tool"), nil
	}
	return skill, server, nil, nil
}

// recheckPeople asks whether the people and the credentials that the call depends on are still good: its principal, the reviewer, who
// has to be one still, and the editor; the token or key that it was made with, and the token that it was approved with.
func (s *Service) recheckPeople(ctx context.Context, c *Call, decided *approval.Approval) (*refusal, error) {
	var standing identity.Standing
	keyRevoked := false
	batch := &pgx.Batch{}
	identity.QueueStanding(batch, []uuid.UUID{c.PrincipalID, decided.DecidedBy, decided.EditedBy}, decided.DecidedVia.Credential, c.ID, &standing)
	agent.QueueKeyRevoked(batch, c.ID, &keyRevoked)
	if err := s.Pool.SendBatch(ctx, batch).Close(); err != nil {
		return nil, fmt.Errorf("read standing of people and credentials: %w", err)
	}
	switch {
	case slices.Contains(standing.Blocked, c.PrincipalID):
		return denied(CodePersonBlocked, "the person on whose behalf the call was made was blocked after it was made"), nil
	case len(standing.Blocked) > 0:
		return denied(CodePersonBlocked, "the reviewer of this call was blocked after the approval"), nil
	case standing.Demoted:
		return denied(CodeReviewerRemoved, "the person who approved this call is no reviewer any more"), nil
	case standing.Revoked || keyRevoked:
		return denied(CodeCredentialRevoked, "a credential that the call was made or approved with was revoked"), nil
	}
	return nil, nil
}

func denied(code, message string) *refusal { return unsent(Denied, code, message) }

// unsent is a refusal without effect.
func unsent(status Status, code, message string) *refusal {
	return &refusal{outcome: outcome{status: status, code: code, effect: tool.EffectNone, message: message}}
}

// endUnsent ends a call that is approved, or claimed by this instance, and must not be sent. It reports whether it did.
func (s *Service) endUnsent(ctx context.Context, pool *pgxpool.Pool, event event, id uuid.UUID, o outcome) (ended bool, err error) {
	m := &move{event: event, id: id, outcome: o, data: map[string]any{"code": o.code}}
	if err := postgres.InTx(ctx, pool, func(tx pgx.Tx) error { return s.moveInTx(ctx, tx, m) }); err != nil {
		return false, fmt.Errorf("end call %s unsent: %w", id, err)
	}
	s.announceMoves(ctx, m)
	return m.made, nil
}

// claim makes this instance the one that sends the call. It reports false
// when another was first. It is one round trip, as the writing of outcomes.
func (s *Service) claim(ctx context.Context, c *Call) (bool, error) {
	m := &move{event: onClaim, id: c.ID, agentID: c.AgentID, outcome: outcome{status: Executing}}
	batch := &pgx.Batch{}
	if err := s.queueMoves(batch, m); err != nil {
		return false, err
	}
	failpoint.Hit(failpoint.ClaimBeforeCommit)
	if err := s.Pool.SendBatch(ctx, batch).Close(); err != nil {
		s.hurry()
		return false, fmt.Errorf("claim call %s: %w", c.ID, err)
	}
	if !m.made {
		return s.claimedBefore(ctx, c)
	}
	c.Status, c.claimedBy = Executing, s.Instance
	failpoint.Hit(failpoint.ClaimAfterCommit)
	return true, nil
}

// claimedBefore reports whether a claim that found the call not approved any more follows an earlier one of this flight whose
// answer was lost. It ends a call whose approval has lapsed.
func (s *Service) claimedBefore(ctx context.Context, c *Call) (bool, error) {
	now, err := s.load(ctx, c.ID)
	switch {
	case err != nil:
		return false, err
	case now.Status == Approved:
		ended, err := s.endUnsent(ctx, s.Pool, onLapse, c.ID, approvalLapsed())
		if err == nil && !ended {
			err = fmt.Errorf("claim call %s: it was given back meanwhile", c.ID)
		}
		return false, err
	case now.Status != Executing || now.claimedBy != s.Instance:
		return false, nil
	}
	c.Status, c.claimedBy = Executing, s.Instance
	return true, nil
}

// approvalLapsed is the end of a call whose approval has lapsed.
func approvalLapsed() outcome {
	return outcome{status: Expired, code: CodeApprovalLapsed, effect: tool.EffectNone, message: MessageLapsed}
}
