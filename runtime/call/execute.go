package call

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"runtime/debug"
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

// dispatchGrace is how long the job of an approved call waits for the process that decided, which sends the call at once.
const dispatchGrace = 5 * time.Second

// queueExecuteJobs adds the inserts of jobs that send approved calls to a batch, under an SQL condition in which e.subject_id is the call.
// The jobs are due after wait. inserted, if it is not nil, gets the id of a job. A second job of a call finds it claimed.
func queueExecuteJobs(batch *pgx.Batch, condition string, ids []uuid.UUID, wait time.Duration, inserted *int64) {
	batch.Queue(`INSERT INTO river_job (kind, queue, args, max_attempts, state, scheduled_at)
		SELECT $2, $3, jsonb_build_object('call_id', e.subject_id), $4, (CASE WHEN $5 = 0 THEN 'available' ELSE 'scheduled' END)::river_job_state,
			now() + $5 * interval '1 microsecond'
		FROM unnest((SELECT $1::uuid[])) AS e(subject_id) WHERE `+condition+` RETURNING id`,
		ids, executeArgs{}.Kind(), ExecuteQueue, river.MaxAttemptsDefault, wait.Microseconds()).Query(func(rows pgx.Rows) error {
		var id int64
		_, err := pgx.ForEachRow(rows, []any{&id}, func() error {
			if inserted != nil {
				*inserted = id
			}
			return nil
		})
		return err
	})
	if wait == 0 { // as River does
		batch.Queue(`SELECT pg_notify(current_schema() || '.river_insert', json_build_object('queue', $2::text)::text)
			WHERE EXISTS (SELECT FROM unnest($1::uuid[]) AS e(subject_id) WHERE `+condition+`)`, ids, ExecuteQueue)
	}
}

// approvedCall is a call that may be sent.
type approvedCall struct {
	id      uuid.UUID
	skillID uuid.UUID          // uuid.Nil: not read yet
	call    *Call              // nil: not read yet
	decided *approval.Approval // nil: not read yet
	jobID   int64              // of the job that sends it if nothing else does; 0: unknown, or running
}

// maxDispatches bounds the approved calls that a process sends without their jobs.
const maxDispatches = 1000

// reserveDispatch reserves a place for [Service.dispatchCall]. It reports false if there is none; the call's job sends it then.
func (s *Service) reserveDispatch() bool {
	select {
	case s.dispatches <- struct{}{}:
		return true
	default:
		return false
	}
}

// dispatchCall sends a call that this process approved, and gives the reserved place back. If it fails, the call's job sends the call.
func (s *Service) dispatchCall(approved approvedCall) {
	s.background.Go(func() {
		defer func() {
			<-s.dispatches
			if cause := recover(); cause != nil { // of the comparison; [Service.sendOnce] has its own
				s.Logger.Error("dispatching a call panicked", "call", approved.id, "cause", cause, "stack", string(debug.Stack()))
			}
		}()
		for began := s.Now(); s.dispatching.Err() == nil; approved.call = nil {
			again, err := s.executeCall(s.running, &approved)
			if err != nil {
				s.Logger.Warn("dispatching a call failed; trying again", "call", approved.id, "error", err)
				again = time.Second
			}
			if again == 0 || err != nil && elapsedTime(s.Now(), began) > dispatchGrace || pause.For(s.dispatching, again) != nil {
				return
			}
		}
	})
}

// StopDispatching ends the dispatch of approved calls that are not being compared or sent yet. Their jobs send them, in any process.
func (s *Service) StopDispatching() { s.stopDispatching() }

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

// Work sends a call that the process which approved it has not sent.
func (w *executeWorker) Work(ctx context.Context, job *river.Job[executeArgs]) error {
	again, err := w.service.executeCall(ctx, &approvedCall{id: job.Args.CallID})
	switch {
	case errors.Is(err, ErrNotFound):
		return river.JobCancel(err)
	case err == nil && again > 0:
		return river.JobSnooze(again)
	}
	return err
}

// executeCall compares an approved call with the present state again, claims it, and sends it. It returns a time after which to try
// again if the call must not be sent yet.
func (s *Service) executeCall(ctx context.Context, approved *approvedCall) (again time.Duration, err error) {
	id := approved.id
	switch {
	case approved.skillID != uuid.Nil && s.gates.isFull(approved.skillID):
		return crowdedDelay, nil // without reading it
	case s.flights.add(id, s.pulse.currentRun()):
	case s.flights.isSending(id):
		return 0, nil
	default:
		return crowdedDelay, nil // this process compares it now, and may yet fail
	}
	defer s.flights.release(id)
	if approved.call == nil {
		if approved.call, approved.decided, err = s.loadApproved(ctx, id); err != nil {
			return 0, err
		}
	}
	c := approved.call
	approved.skillID = c.SkillID
	switch {
	case c.Status == Executing && c.claimedBy == s.Instance: // the answer of our claim was lost
		return 0, s.giveBack(ctx, id, c.Gated)
	case c.Status != Approved || c.GateOnly:
		return 0, nil
	case !s.gates.enter(c.SkillID):
		return crowdedDelay, nil
	}
	defer s.gates.leave(c.SkillID)
	to, again, err := s.compareApproved(ctx, approved)
	if to == nil || again > 0 || err != nil {
		return again, err
	}
	ours, err := s.claimApproved(ctx, approved, to, nil)
	if err != nil || !ours {
		return 0, err
	}
	s.sendCall(c, *to)
	return 0, nil
}

// compareApproved compares an approved call with the present state again. It returns nil if the call must not be sent: then it has ended, or
// waits again. It returns a time after which to try again if the call must not be sent yet.
func (s *Service) compareApproved(ctx context.Context, approved *approvedCall) (*target, time.Duration, error) {
	c, began := approved.call, s.Now()
	to, refusal, err := s.recheckApproved(c.trace.In(ctx), c, approved.decided)
	if errors.Is(err, errDecidedAgain) {
		return nil, time.Millisecond, nil
	}
	if again, ok := errors.AsType[*ruledError](err); ok {
		return nil, 0, s.askAgain(ctx, c, approved.decided, again)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("check call %s again: %w", c.ID, err)
	}
	if refusal != nil {
		return nil, 0, s.refuseApproved(ctx, c, refusal)
	}
	s.recordStep(c, StepValidate, began)
	return &to, to.undoLeft, nil
}

// claimApproved claims a call that was compared: for this instance, or for the request that it is released to. It reports false if it did not
// claim the call: another one was first, or it must not be sent.
func (s *Service) claimApproved(ctx context.Context, approved *approvedCall, to *target, release *gateRelease) (bool, error) {
	failpoint.Hit(failpoint.ExecuteBeforeClaim)
	c, began := approved.call, s.Now()
	ours, refusal, err := s.claimCall(ctx, c, approved.jobID, to.open, release)
	if again, ok := errors.AsType[*ruledError](err); ok {
		return false, s.askAgain(ctx, c, approved.decided, again)
	}
	if refusal != nil {
		return false, s.refuseApproved(ctx, c, refusal)
	}
	if err == nil && ours {
		s.recordStep(c, StepLog, began)
	}
	return ours, err
}

// refuseApproved ends an approved call that must not be sent, or makes it wait for a connection.
func (s *Service) refuseApproved(ctx context.Context, c *Call, r *refusal) error {
	if r.wait != nil {
		if suspended, err := s.suspendCall(ctx, c, *r.wait); suspended || err != nil {
			return err
		}
	}
	_, err := s.endUnsent(ctx, s.Pool, onRefuse, c.ID, r.outcome)
	return err
}

// loadApproved reads a call and its approval. The approval is nil if the call has none.
func (s *Service) loadApproved(ctx context.Context, id uuid.UUID) (*Call, *approval.Approval, error) {
	c, err := s.loadCall(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	decided, err := approval.Get(ctx, s.Pool, id)
	if errors.Is(err, approval.ErrNotFound) && c.Status != Approved {
		return c, nil, nil
	}
	return c, &decided, err
}

// refusal says why a call is not sent.
type refusal struct {
	outcome
	wait *connectWait // the call waits for this connection; nil: it ends

	problems []tool.Problem // of invalid arguments; the message lists them
}

// errDecidedAgain means that the approval was taken back, and possibly given again, since it was read.
var errDecidedAgain = errors.New("the approval was decided again")

// recheckApproved compares the approved call with the present state: the envelope, the files, the tool's definition, the skill, the
// assignment, the people and credentials, and the request. It reads the database in one round trip, and the definition from a recent
// listing.
func (s *Service) recheckApproved(ctx context.Context, c *Call, decided *approval.Approval) (target, *refusal, error) {
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
	offered, r, err := s.renewListing(ctx, c, listed.For(c.PrincipalID), known)
	if r != nil || err != nil {
		return target{}, r, err
	}
	definition, err := s.Discovery.Definition(ctx, c.Pin)
	if err != nil {
		return target{}, nil, err
	}
	now, pins, fresh, standing, rules, err := s.readPresentState(ctx, c, decided) // the listing may have taken long
	digest := c.buildEnvelope().Digest()
	switch {
	case errors.Is(err, agent.ErrNotFound):
		return target{}, newDenial(CodeSkillChanged, skillRemoved), nil
	case err != nil:
		return target{}, nil, fmt.Errorf("read the present state: %w", err)
	case now.Status != decided.Status || now.Digest != decided.Digest || now.DecidedBy != decided.DecidedBy ||
		now.EditedBy != decided.EditedBy || now.DecidedVia != decided.DecidedVia:
		return target{}, nil, errDecidedAgain
	case !pins.Known || !offered:
		return target{}, newDenial(CodeDefinitionChanged, "the skill server no longer offers this tool"), nil
	case pins.Current != c.Pin:
		return target{}, newDenial(CodeDefinitionChanged, "the tool's definition changed after this call was made"), nil
	case pins.IsRefused():
		return target{}, newDenial(CodeDefinitionChanged, definitionRefused), nil
	case now.Status != approval.Approved || subtle.ConstantTimeCompare(digest[:], now.Digest[:]) != 1:
		return target{}, newDenial(CodeEnvelopeChanged, "the call differs from the approved call"), nil
	case fresh.Skill.Revision != c.SkillRevision:
		return target{}, newDenial(CodeSkillChanged, "the skill was changed after this call was made"), nil
	case !fresh.Assigned:
		return target{}, newDenial(CodeAssignmentRevoked, toolUnassigned), nil
	case slices.Contains(standing.Blocked, c.PrincipalID):
		return target{}, newDenial(CodePersonBlocked, "the person on whose behalf the call was made was blocked after it was made"), nil
	case len(standing.Blocked) > 0:
		return target{}, newDenial(CodePersonBlocked, "the reviewer of this call was blocked after the approval"), nil
	case standing.Demoted:
		return target{}, newDenial(CodeReviewerRemoved, "the person who approved this call is no longer a reviewer"), nil
	case !standing.Covers(decided.DecidedBy, scopeOf(decided, c.Agent, fresh.Skill.Name)):
		return target{}, newDenial(CodeReviewerRemoved, "the person who approved this call may no longer decide calls like it"), nil
	case standing.Revoked || fresh.KeyRevoked:
		return target{}, newDenial(CodeCredentialRevoked, "a credential that the call was made or approved with was revoked"), nil
	}
	to := target{skill: fresh.Skill, server: fresh.Server.For(c.PrincipalID), definition: definition}
	if to.undoLeft, err = approval.UndoLeft(ctx, s.Pool, &now); err != nil {
		return target{}, nil, err
	}
	c.Skill = fresh.Skill.Name
	r, err = s.recheckVerdict(ctx, c, &now, &to, rules)
	return to, r, err
}

// recheckVerdict compares an approved call with the rules in force, its policies, and the request that it would make; revision is that of the last
// change of a rule or policy.
func (s *Service) recheckVerdict(ctx context.Context, c *Call, decided *approval.Approval, to *target, revision int64) (*refusal, error) {
	if r, err := s.recheckRules(ctx, c, decided, to, revision); r != nil || err != nil {
		return r, err
	}
	if r, err := s.recheckVotes(ctx, decided); r != nil || err != nil {
		return r, err
	}
	return s.recheckRequest(ctx, c, *to)
}

// readPresentState reads all that an approved call is compared with, in one round trip.
func (s *Service) readPresentState(ctx context.Context, c *Call, decided *approval.Approval) (now approval.Approval, pins tool.PinStatus, fresh agent.Fresh, standing identity.Standing, rules int64, err error) {
	batch := &pgx.Batch{}
	approval.QueueGet(batch, c.ID, &now)
	tool.QueuePin(batch, c.SkillID, c.Tool, &pins)
	s.Agents.QueueFresh(batch, c.AgentID, c.SkillID, c.Tool, c.ID, &fresh)
	identity.QueueStanding(batch, []uuid.UUID{c.PrincipalID, decided.DecidedBy, decided.EditedBy}, decided.DecidedVia.Credential, c.ID, &standing)
	agent.QueueRulesRevision(batch, &rules)
	err = s.Pool.SendBatch(ctx, batch).Close()
	return now, pins, fresh, standing, rules, err
}

const (
	skillRemoved   = "the skill was removed"
	toolUnassigned = "the agent may no longer use this tool"
)

// renewListing renews the listing of the skill's tools if it is too old. It reports whether it has the tool; see [tool.Discovery.Recheck].
func (s *Service) renewListing(ctx context.Context, c *Call, server tool.Server, skill *agent.Skill) (bool, *refusal, error) {
	offered, err := s.Discovery.Recheck(ctx, server, skill.TrustNewTools, c.Tool)
	if failure, ok := errors.AsType[*tool.Failure](err); ok {
		r := &refusal{outcome: outcome{
			status: Failed, code: string(failure.Kind), failure: failure.Kind, effect: tool.EffectNone,
			message: "the tool's definition could not be checked before sending: " + failure.Message,
		}}
		if failure.Connect != nil {
			r.wait = &connectWait{failure.Connect.Reason, skill.ApprovalTimeout, failure.Connect.Partial}
		}
		return false, r, nil
	}
	return offered, nil, err
}

func newDenial(code, message string) *refusal { return newRefusal(Denied, code, message) }

// newRefusal makes a refusal without an effect.
func newRefusal(status Status, code, message string) *refusal {
	return &refusal{outcome: outcome{status: status, code: code, effect: tool.EffectNone, message: message}}
}

// endUnsent ends a call that is approved, or claimed by this instance, and that must not be sent. It reports whether it did.
func (s *Service) endUnsent(ctx context.Context, pool *pgxpool.Pool, event event, id uuid.UUID, o outcome) (ended bool, err error) {
	m := &move{event: event, id: id, outcome: o, data: map[string]any{"code": o.code}}
	if err := s.moveCalls(ctx, pool, m); err != nil {
		return false, fmt.Errorf("end call %s unsent: %w", id, err)
	}
	s.announceMoves(ctx, m)
	return m.made, nil
}

// claimCall claims the call for this instance, stores its facts and removes its job, in one round trip, unless its verdict is open; or it
// claims a gate-only call for its caller, with the release. It reports false if another one was first, or if the settled verdict refuses the
// call. Errors: *ruledError.
func (s *Service) claimCall(ctx context.Context, c *Call, jobID int64, open *openVerdict, release *gateRelease) (bool, *refusal, error) {
	m := &move{event: onClaim, id: c.ID, agentID: c.AgentID, outcome: outcome{status: Executing}}
	if release != nil {
		m.event = onRelease
	}
	batch := &pgx.Batch{}
	if err := s.queueMoves(batch, m); err != nil {
		return false, nil, err
	}
	if err := s.queueFacts(ctx, batch, c); err != nil {
		return false, nil, err
	}
	batch.Queue(`SELECT attach_key, keyed_sum FROM calls WHERE id = $1`, c.ID).QueryRow(func(row pgx.Row) error {
		return row.Scan(&c.attachKey, &c.keyedSum)
	})
	if jobID != 0 {
		batch.Queue(`DELETE FROM river_job WHERE id = $2 AND state IN ('available', 'scheduled')
			AND EXISTS (SELECT FROM (SELECT $1::uuid AS subject_id) AS e WHERE `+justWritten+`)`, c.ID, jobID)
	}
	if release != nil {
		release.queue(batch, c.ID)
	}
	failpoint.Hit(failpoint.ClaimBeforeCommit)
	var refused *refusal
	var err error
	switch {
	case open != nil:
		refused, err = s.claimCounted(ctx, open, batch)
	case release != nil:
		err = postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error { return s.sendSettled(ctx, tx, batch) })
	default:
		err = s.Pool.SendBatch(ctx, batch).Close()
	}
	if _, ruled := errors.AsType[*ruledError](err); ruled || refused != nil {
		return false, refused, err
	}
	if err != nil {
		s.triggerRecovery()
		return false, nil, fmt.Errorf("claim call %s: %w", c.ID, err)
	}
	if !m.made && release != nil {
		_, err := s.endUnsent(ctx, s.Pool, onLapse, c.ID, lapsedOutcome()) // it changes nothing unless the approval has lapsed
		return false, nil, err
	}
	if !m.made {
		ours, err := s.confirmEarlierClaim(ctx, c)
		return ours, nil, err
	}
	if c.Status = Executing; release == nil {
		c.claimedBy = s.Instance
	}
	failpoint.Hit(failpoint.ClaimAfterCommit)
	return true, nil, nil
}

// sendSettled runs a batch in tx unless another instance may still have to recall a call that it sent or released. Error: errUnsettled.
func (s *Service) sendSettled(ctx context.Context, tx pgx.Tx, batch *pgx.Batch) error {
	if !s.isSettled() {
		return errUnsettled
	}
	return tx.SendBatch(ctx, batch).Close()
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
	case now.Status != Executing || now.claimedBy != s.Instance: // a released call has no claimant
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

// confirmClaim returns nil if this instance still has its claim of a call, and the grant that let it pass still stands. It reads the database
// only if there was a gap between heartbeats since the claim, because others may have taken it then, or the database was replaced; or if the
// grant was not read a moment ago. It retries until ctx ends.
func (s *Service) confirmClaim(ctx context.Context, c *Call) error {
	for run, id := s.flights.heartbeatRun(c.ID), c.ID; !s.isSettled() || !s.pulse.isUnbroken(run, s.Now()) || s.isGrantStale(c); {
		if !s.isSettled() {
			if pause.For(ctx, retryDelay) != nil {
				return fmt.Errorf("confirm the claim of call %s: %w", id, errUnsettled)
			}
			continue
		}
		attempt, cancel := context.WithTimeout(ctx, beatLimit)
		var ours, lapsed, stands bool
		began, pool := s.Now(), s.vital
		if s.pulse.isUnbroken(run, began) { // only the grant has to be read
			pool = s.Pool
		}
		err := pool.QueryRow(attempt, `SELECT EXISTS (SELECT FROM calls
				WHERE id = $1 AND status = 'executing' AND claimed_by = $2), `+approval.Lapsed("$1")+`, $3::uuid IS NULL OR `+agent.GrantStands("$3::uuid"),
			id, s.Instance, postgres.OrNull(c.GrantID)).Scan(&ours, &lapsed, &stands)
		cancel()
		switch {
		case err == nil && !ours:
			return errClaimLost
		case err == nil && lapsed:
			return errApprovalLapsed
		case err == nil && !stands:
			return errGrantRevoked
		case err == nil && elapsedTime(s.Now(), began) < staleBeat:
			if c.granted = began; !s.isGrantStale(c) {
				return nil
			}
		}
		if pause.For(ctx, retryDelay) != nil {
			return fmt.Errorf("confirm the claim of call %s: %w", id, context.Cause(ctx))
		}
	}
	return nil
}
