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
	"github.com/holdpoint/holdpoint/internal/pause"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// ExecuteQueue is the River queue of approved calls.
const ExecuteQueue = "execute"

// executeArgs is the job that sends an approved call. A second job of the same call finds it claimed.
type executeArgs struct {
	CallID uuid.UUID `json:"call_id"`
}

func (executeArgs) Kind() string { return "call_execute" }

// InsertOpts implements [river.JobArgsWithInsertOpts].
func (executeArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: ExecuteQueue}
}

// enqueueExecution inserts the jobs that send calls. A second job of a call finds it claimed.
func (s *Service) enqueueExecution(ctx context.Context, tx pgx.Tx, ids []uuid.UUID) error {
	if len(ids) == 0 {
		return nil
	}
	jobs := make([]river.InsertManyParams, len(ids))
	for i, id := range ids {
		jobs[i] = river.InsertManyParams{Args: executeArgs{CallID: id}}
	}
	if _, err := s.river.InsertManyFastTx(ctx, tx, jobs); err != nil {
		return fmt.Errorf("insert execute jobs: %w", err)
	}
	return nil
}

type executeWorker struct {
	river.WorkerDefaults[executeArgs]
	service *Service
}

// crowdedDelay is the pause of a job while its skill has the maximum of calls in flight.
const crowdedDelay = time.Second

// Timeout is longer than any call's own timeout, which bounds the request.
func (w *executeWorker) Timeout(*river.Job[executeArgs]) time.Duration { return 24 * time.Hour }

// NextRetry is soon, because only the database fails here.
func (w *executeWorker) NextRetry(job *river.Job[executeArgs]) time.Time {
	return w.service.Now().Add(min(time.Duration(job.Attempt)*time.Second, 30*time.Second))
}

// Work compares an approved call with the present state again, claims it, and sends it.
func (w *executeWorker) Work(ctx context.Context, job *river.Job[executeArgs]) error {
	s, id := w.service, job.Args.CallID
	if !s.flights.add(id, s.pulse.currentRun()) {
		return nil // this process is already sending it
	}
	defer s.flights.release(id)
	c, err := s.loadCall(ctx, id)
	switch {
	case errors.Is(err, ErrNotFound):
		return river.JobCancel(err)
	case err != nil:
		return err
	case c.Status == Executing && c.claimedBy == s.Instance: // the answer of our claim was lost
		return s.giveBack(ctx, id, c.Gated)
	case c.Status != Approved:
		return nil
	case !s.gates.enter(c.SkillID):
		return river.JobSnooze(crowdedDelay)
	}
	defer s.gates.leave(c.SkillID)
	began := s.Now()
	to, refusal, err := s.recheckApproved(c.trace.In(ctx), c)
	if err != nil {
		return fmt.Errorf("check call %s again: %w", id, err)
	}
	if refusal != nil {
		if refusal.wait != nil {
			if suspended, err := s.suspendCall(ctx, c, *refusal.wait); suspended || err != nil {
				return err
			}
		}
		_, err := s.endUnsent(ctx, s.Pool, onRefuse, id, refusal.outcome)
		return err
	}
	s.recordStep(c, StepValidate, began)
	if to.undoLeft > 0 {
		return river.JobSnooze(to.undoLeft)
	}
	failpoint.Hit(failpoint.ExecuteBeforeClaim)
	began = s.Now()
	ours, err := s.claimCall(ctx, c)
	if err != nil || !ours {
		return err
	}
	s.recordStep(c, StepLog, began)
	s.sendCall(c, to)
	return nil
}

// refusal says why a call is not sent.
type refusal struct {
	outcome
	wait *connectWait // the call waits for this connection; nil: it ends

	problems []tool.Problem // of invalid arguments; the message lists them
}

// recheckApproved compares the approved call with the present state: the envelope, the files, the tool's definition, the skill, the
// assignment, the people and credentials, and the request. It reads the database, and the definition from a recent listing.
func (s *Service) recheckApproved(ctx context.Context, c *Call) (target, *refusal, error) {
	decided, err := approval.Get(ctx, s.Pool, c.ID)
	if err != nil {
		return target{}, nil, err
	}
	digest := c.buildEnvelope().Digest()
	if decided.Status != approval.Approved || subtle.ConstantTimeCompare(digest[:], decided.Digest[:]) != 1 {
		return target{}, newDenial(CodeEnvelopeChanged, "the call differs from the approved call"), nil
	}
	if r, err := s.recheckFiles(ctx, c); r != nil || err != nil {
		return target{}, r, err
	}
	// The cached skill is good enough for listing the tools.
	known, listed, err := s.Agents.Skill(ctx, c.SkillID)
	if errors.Is(err, agent.ErrNotFound) {
		return target{}, newDenial(CodeSkillChanged, skillRemoved), nil
	}
	if err != nil {
		return target{}, nil, err
	}
	if r, err := s.recheckPin(ctx, c, listed.For(c.PrincipalID), known); r != nil || err != nil {
		return target{}, r, err
	}
	definition, err := s.Discovery.Definition(ctx, c.Pin)
	if err != nil {
		return target{}, nil, err
	}
	// The listing may have taken long, so the skill and the assignment are read from the database now.
	skill, server, err := s.Agents.FreshSkill(ctx, c.SkillID)
	switch {
	case errors.Is(err, agent.ErrNotFound):
		return target{}, newDenial(CodeSkillChanged, skillRemoved), nil
	case err != nil:
		return target{}, nil, err
	case skill.Revision != c.SkillRevision:
		return target{}, newDenial(CodeSkillChanged, "the skill was changed after this call was made"), nil
	}
	assigned, err := s.Agents.Assigned(ctx, c.AgentID, c.SkillID, c.Tool)
	if err != nil {
		return target{}, nil, err
	}
	if !assigned {
		return target{}, newDenial(CodeAssignmentRevoked, toolUnassigned), nil
	}
	if r, err := s.recheckPeople(ctx, c, &decided); r != nil || err != nil {
		return target{}, r, err
	}
	to := target{skill: skill, server: server.For(c.PrincipalID), definition: definition}
	if to.undoLeft, err = approval.UndoLeft(ctx, s.Pool, &decided); err != nil {
		return target{}, nil, err
	}
	r, err := s.recheckRequest(ctx, c, to)
	return to, r, err
}

const (
	skillRemoved   = "the skill was removed"
	toolUnassigned = "the agent may no longer use this tool"
)

// recheckPin compares the definition with the listing, which it renews if it is too old.
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
		return newDenial(CodeDefinitionChanged, "the skill server no longer offers this tool"), nil
	}
	if pins.Current != c.Pin {
		return newDenial(CodeDefinitionChanged, "the tool's definition changed after this call was made"), nil
	}
	if pins.IsRefused() {
		return newDenial(CodeDefinitionChanged, definitionRefused), nil
	}
	return nil, nil
}

// recheckPeople checks that the call's principal, reviewer and editor are not blocked, that the reviewer still has the role, and that
// the credentials of the call and of the decision are not revoked.
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
		return newDenial(CodePersonBlocked, "the person on whose behalf the call was made was blocked after it was made"), nil
	case len(standing.Blocked) > 0:
		return newDenial(CodePersonBlocked, "the reviewer of this call was blocked after the approval"), nil
	case standing.Demoted:
		return newDenial(CodeReviewerRemoved, "the person who approved this call is no longer a reviewer"), nil
	case standing.Revoked || keyRevoked:
		return newDenial(CodeCredentialRevoked, "a credential that the call was made or approved with was revoked"), nil
	}
	return nil, nil
}

func newDenial(code, message string) *refusal { return newRefusal(Denied, code, message) }

// newRefusal makes a refusal without an effect.
func newRefusal(status Status, code, message string) *refusal {
	return &refusal{outcome: outcome{status: status, code: code, effect: tool.EffectNone, message: message}}
}

// endUnsent ends a call that is approved, or claimed by this instance, and that must not be sent. It reports whether it did.
func (s *Service) endUnsent(ctx context.Context, pool *pgxpool.Pool, event event, id uuid.UUID, o outcome) (ended bool, err error) {
	m := &move{event: event, id: id, outcome: o, data: map[string]any{"code": o.code}}
	if err := postgres.InTx(ctx, pool, func(tx pgx.Tx) error { return s.moveInTx(ctx, tx, m) }); err != nil {
		return false, fmt.Errorf("end call %s unsent: %w", id, err)
	}
	s.announceMoves(ctx, m)
	return m.made, nil
}

// claimCall claims the call for this instance and stores its facts, in one round trip. It reports false if another instance was first.
func (s *Service) claimCall(ctx context.Context, c *Call) (bool, error) {
	m := &move{event: onClaim, id: c.ID, agentID: c.AgentID, outcome: outcome{status: Executing}}
	batch := &pgx.Batch{}
	if err := s.queueMoves(batch, m); err != nil {
		return false, err
	}
	if err := s.queueFacts(ctx, batch, c); err != nil {
		return false, err
	}
	failpoint.Hit(failpoint.ClaimBeforeCommit)
	if err := s.Pool.SendBatch(ctx, batch).Close(); err != nil {
		s.triggerRecovery()
		return false, fmt.Errorf("claim call %s: %w", c.ID, err)
	}
	if !m.made {
		return s.confirmEarlierClaim(ctx, c)
	}
	c.Status, c.claimedBy = Executing, s.Instance
	failpoint.Hit(failpoint.ClaimAfterCommit)
	return true, nil
}

// confirmEarlierClaim is called if a claim found the call not approved. It reports whether an earlier claim of this flight, whose
// answer was lost, had succeeded. It ends a call whose approval has lapsed.
func (s *Service) confirmEarlierClaim(ctx context.Context, c *Call) (bool, error) {
	now, err := s.loadCall(ctx, c.ID)
	switch {
	case err != nil:
		return false, err
	case now.Status == Approved:
		ended, err := s.endUnsent(ctx, s.Pool, onLapse, c.ID, lapsedOutcome())
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

// lapsedOutcome returns the outcome of a call whose approval has lapsed.
func lapsedOutcome() outcome {
	return outcome{status: Expired, code: CodeApprovalLapsed, effect: tool.EffectNone, message: MessageLapsed}
}

// errClaimLost means that this instance has lost its claim of a call.
var errClaimLost = errors.New("another process took the call over while this one was suspended")

// errApprovalLapsed means that the approval of a claimed call has lapsed.
var errApprovalLapsed = errors.New("the approval lapsed while this process was suspended")

// confirmClaim returns nil if this instance still has its claim of a call. It reads the database only if there was a gap between
// heartbeats since the claim, because others may have taken it then. It retries until ctx ends.
func (s *Service) confirmClaim(ctx context.Context, id uuid.UUID) error {
	for run := s.flights.heartbeatRun(id); !s.pulse.isUnbroken(run, s.Now()); {
		attempt, cancel := context.WithTimeout(ctx, beatLimit)
		var ours, lapsed bool
		began := s.Now()
		err := s.vital.QueryRow(attempt, `SELECT EXISTS (SELECT FROM calls
			WHERE id = $1 AND status = 'executing' AND claimed_by = $2), `+approval.Lapsed("$1"), id, s.Instance).Scan(&ours, &lapsed)
		cancel()
		switch {
		case err == nil && !ours:
			return errClaimLost
		case err == nil && lapsed:
			return errApprovalLapsed
		case err == nil && elapsedTime(s.Now(), began) < staleBeat:
			return nil
		}
		if pause.For(ctx, retryDelay) != nil {
			return fmt.Errorf("confirm the claim of call %s: %w", id, context.Cause(ctx))
		}
	}
	return nil
}
