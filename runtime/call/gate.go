package call

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call/errorline"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// A gate-only call is one that Holdpoint judges, parks and releases, and that its caller executes: a call of a skill with the transport
// [tool.Gate]. It is submitted and decided like any other. Instead of being sent, it is released to one request of its caller, once
// (release.go). It is then executing, and no instance has claimed it. Its caller reports the outcome.

// GateRequest is what the caller of a gate-only call says about itself. Its binding and its subject are part of the digest, the rest is not.
type GateRequest struct {
	// Name is unique for each execution that the caller intends, such as a random UUID. It is not the id that a model gave the call: models
	// repeat ids, and a repeat of a released request is allowed again until the release expires. Empty: it has no name.
	Name string
	GateBinding
	GateOrigin
}

// GateBinding is what an approval of a gate-only call is bound to besides its arguments: claims of its caller, which nobody checked.
type GateBinding struct {
	Directory string    `json:"cwd"`             // where the call is executed: a folder, or the address that a gateway calls; empty: not known
	Paths     []string  `json:"paths,omitempty"` // the files and folders that the call names, with all links followed; nil: not known
	File      *GateFile `json:"file,omitempty"`  // that the call would change; nil: none, or not known

	// TakesEdits means that the caller executes the arguments of [Passage.Edited] instead of its own.
	TakesEdits bool `json:"takes_edits,omitempty"`
}

// GateFile is a file as the caller of a gate-only call read it before it asked.
type GateFile struct {
	Path   string  `json:"path"`
	Exists bool    `json:"exists"`
	Size   int64   `json:"size"`             // in bytes
	SHA256 string  `json:"sha256,omitempty"` // in hexadecimal; empty: not known
	Text   *string `json:"text,omitempty"`   // the whole content; nil: it was not sent
}

// GateOrigin says where a gate-only call comes from.
type GateOrigin struct {
	Host     string `json:"host,omitempty"`
	Session  string `json:"session,omitempty"`
	Subagent string `json:"subagent,omitempty"` // empty: the main agent
	Version  string `json:"version,omitempty"`  // of the host

	// Subject is the person or program for which a gateway makes the call, as the gateway says. A person whom it names may not decide the
	// call. Nil: the gateway does not say.
	Subject *GateSubject `json:"subject,omitempty"`
}

// GateSubject is the subject of a gateway's call.
type GateSubject struct {
	Type  string `json:"type,omitempty"`
	ID    string `json:"id"`
	Email string `json:"email,omitempty"`
}

// storedBinding is the stored request of a gate-only call.
type storedBinding struct {
	GateBinding
	Subject *GateSubject `json:"subject,omitempty"`
}

// bindsMore reports whether the request is bound to more than its directory.
func (g *GateRequest) bindsMore() bool {
	return len(g.Paths) > 0 || g.File != nil || g.TakesEdits || g.Subject != nil
}

// encodeBinding returns the stored request of a gate-only call. Nil: it is bound to nothing besides its arguments.
func (g *GateRequest) encodeBinding() (json.RawMessage, error) {
	if g.Directory == "" && !g.bindsMore() {
		return nil, nil
	}
	return json.Marshal(storedBinding{g.GateBinding, g.Subject})
}

// Binding returns the claims that a gate-only call is bound to. It is empty if there are none, or if they were deleted.
func (c *Call) Binding() GateBinding {
	if !c.GateOnly {
		return GateBinding{}
	}
	return readBinding(c.request)
}

func readBinding(request json.RawMessage) (b GateBinding) {
	if request == nil || json.Unmarshal(request, &b) != nil {
		return GateBinding{}
	}
	return b
}

// GateOrigin returns where a gate-only call comes from, as its caller says.
func (c *Call) GateOrigin() GateOrigin {
	if c.caller.Gate == nil {
		return GateOrigin{}
	}
	return *c.caller.Gate
}

// setGate gives a new call what its caller says. The skill's host takes precedence.
func (c *Call) setGate(g *GateRequest, skill *agent.Skill) (err error) {
	origin := g.GateOrigin
	if c.GateOnly, c.Host = true, origin.Host; skill.Host != "" {
		c.Host = skill.Host
	}
	c.caller.Gate = &origin
	c.request, err = g.encodeBinding()
	return err
}

// The codes of gate-only calls.
const (
	CodeNotReported = "outcome_not_reported" // of unknown calls: the caller did not report the outcome
	CodeNotRun      = "not_run"              // of failed calls: the caller did not execute it after the release

	codeReleased          = "released"           // the caller may execute it
	codeWaiting           = "pending"            // nobody has decided yet
	codeReleasedElsewhere = "released_elsewhere" // it was released to another request
	codeReleaseExpired    = "release_expired"    // the caller asked again too late
	codeAlreadyReported   = "already_reported"   // the caller has reported its outcome
)

// errRequestTaken means that another submission with the same name was recorded meanwhile.
var errRequestTaken = errors.New("the request was made before")

// ErrNotReleased means that the outcome of a call was reported that was not released to this request.
var ErrNotReleased = errors.New("the call was not released to this request")

// gateKey returns the key of a named request. Nil: it has no name.
func (c *Call) gateKey(name string) []byte {
	if name == "" {
		return nil
	}
	return hashParts(c.AgentID[:], c.PrincipalID[:], c.SkillID[:], []byte(name))
}

// gateSum returns the hash of what a named request is about.
func (c *Call) gateSum() []byte { return hashParts([]byte(c.Tool), c.AgentArguments(), c.request) }

// Gate submits a gate-only call, or finds the one that the request asked about before, and waits for the decision until wait ends; see
// [Service.AwaitPassage]. Errors: those of [Service.Submit], ErrKeyReused.
func (s *Service) Gate(ctx, wait context.Context, sub Submission) (Passage, error) {
	viewer := Viewer{AgentID: sub.Agent.ID, PrincipalID: sub.PrincipalID}
	for attempt := 1; ; attempt++ {
		id, err := s.findRequest(ctx, &sub)
		if err != nil {
			return Passage{}, err
		}
		if id != uuid.Nil {
			return s.AwaitPassage(ctx, wait, viewer, id, sub.Gate.Name)
		}
		ticket, err := s.Submit(ctx, sub)
		if err == nil && ticket.Attached {
			err = s.attachRequest(ctx, &sub, ticket.ID)
		}
		switch {
		case errors.Is(err, errRequestTaken) && attempt < attachAttempts:
			continue
		case err != nil:
			return Passage{}, err
		case ticket.Status == Executing && !ticket.Attached && !ticket.ReleasedUntil.IsZero(): // else an earlier attempt may have recorded it
			return Passage{ID: ticket.ID, Allowed: true, Code: codeReleased, Message: releasedMessage, ReleasedUntil: ticket.ReleasedUntil}, nil
		}
		p, err := s.AwaitPassage(ctx, wait, viewer, ticket.ID, sub.Gate.Name)
		p.Alone = ticket.Alone
		return p, err
	}
}

// newGateCall returns the call of a submission as far as keys and sums need it.
func newGateCall(sub *Submission) (*Call, error) {
	c := &Call{AgentID: sub.Agent.ID, PrincipalID: sub.PrincipalID, SkillID: sub.Entry.SkillID, Tool: sub.Entry.Tool.Name, Arguments: sub.Arguments}
	var err error
	c.request, err = sub.Gate.encodeBinding()
	return c, err
}

// findRequest returns the call of an earlier request with the same name. uuid.Nil: there is none. Error: ErrKeyReused.
func (s *Service) findRequest(ctx context.Context, sub *Submission) (uuid.UUID, error) {
	c, err := newGateCall(sub)
	if err != nil || sub.Gate.Name == "" {
		return uuid.Nil, err
	}
	var id uuid.UUID
	var sum []byte
	err = s.Pool.QueryRow(ctx, `SELECT call_id, sum FROM gate_requests WHERE key = $1`, c.gateKey(sub.Gate.Name)).Scan(&id, &sum)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return uuid.Nil, nil
	case err != nil:
		return uuid.Nil, fmt.Errorf("find an earlier request: %w", err)
	case string(sum) != string(c.gateSum()):
		return uuid.Nil, ErrKeyReused
	}
	return id, nil
}

// attachRequest records that a named request attaches to a call. Error: errRequestTaken.
func (s *Service) attachRequest(ctx context.Context, sub *Submission, id uuid.UUID) error {
	c, err := newGateCall(sub)
	if err != nil {
		return err
	}
	return insertRequest(ctx, s.Pool, c, sub.Gate.Name, id)
}

func insertRequest(ctx context.Context, db postgres.Querier, c *Call, name string, id uuid.UUID) error {
	if name == "" {
		return nil
	}
	inserted, err := readIDs(ctx, db, `INSERT INTO gate_requests (key, call_id, sum) VALUES ($1, $2, $3)
		ON CONFLICT (key) DO NOTHING RETURNING call_id`, c.gateKey(name), id, c.gateSum())
	if err != nil {
		return fmt.Errorf("record a request for call %s: %w", id, err)
	}
	if len(inserted) == 0 {
		return errRequestTaken
	}
	return nil
}

// beginGated returns what the transaction that records a gate-only call does besides. A call that needs no approval is released there. Nil:
// Holdpoint sends the call.
func beginGated(sub *Submission, item *intakeItem, skill *agent.Skill) func(ctx context.Context, tx pgx.Tx, c *Call) error {
	if sub.Gate == nil {
		return nil
	}
	return func(ctx context.Context, tx pgx.Tx, c *Call) error {
		if err := insertRequest(ctx, tx, c, sub.Gate.Name, c.ID); err != nil || c.Status != Executing {
			return err
		}
		r := newRelease(c, sub.Gate.Name, skill)
		err := tx.QueryRow(ctx, `INSERT INTO gate_releases (call_id, request_key, until)
			VALUES ($1, $2, holdpoint_now() + $3 * interval '1 microsecond') RETURNING until`, c.ID, r.key, r.lasts.Microseconds()).Scan(&item.ticket.ReleasedUntil)
		if err != nil {
			return fmt.Errorf("release call %s: %w", c.ID, err)
		}
		return nil
	}
}

// The outcomes that callers report.
const (
	ReportedSucceeded = "succeeded"
	ReportedFailed    = "failed"
	ReportedNotRun    = "not_run"
)

// Report is the outcome of a released call, as its caller says.
type Report struct {
	Outcome string // ReportedSucceeded, ReportedFailed or ReportedNotRun
	Text    string // for people
}

// outcome returns the outcome with its details.
func (r *Report) outcome() (outcome, error) {
	failed := r.Outcome != ReportedSucceeded
	result, err := json.Marshal(map[string]any{"content": []map[string]string{{"type": "text", "text": r.Text}}, "isError": failed})
	if err != nil {
		return outcome{}, fmt.Errorf("encode the outcome: %w", err)
	}
	switch r.Outcome {
	case ReportedSucceeded:
		return outcome{status: Succeeded, result: result}, nil
	case ReportedNotRun:
		return outcome{
			status: Failed, code: CodeNotRun, failure: tool.TransportFailure, effect: tool.EffectNone,
			message: "the caller reported that it did not execute the call", result: result,
		}, nil
	}
	return outcome{
		status: Failed, code: string(tool.ToolError), failure: tool.ToolError, effect: tool.EffectPossible,
		message: "the caller reported an error", result: result,
	}, nil
}

// ReportOutcome records the outcome of a released call. The first report counts; others change nothing. A report about a call whose outcome is
// unknown by now is stored beside it. Errors: ErrNotFound, ErrNotReleased.
func (s *Service) ReportOutcome(ctx context.Context, viewer Viewer, id uuid.UUID, name string, r Report) error {
	c, released, err := s.loadGated(ctx, viewer, id)
	if err == nil && (released == nil || string(released.key) != string(c.gateKey(name))) {
		err = ErrNotReleased
	}
	if err == nil {
		err = s.storeReport(ctx, viewer, c, r)
	}
	if err != nil {
		return fmt.Errorf("report the outcome of call %s: %w", id, err)
	}
	return nil
}

// storeReport stores the outcome of a call that was released.
func (s *Service) storeReport(ctx context.Context, viewer Viewer, c *Call, r Report) error {
	o, err := r.outcome()
	if err != nil || c.Status.Final() && c.Status != Unknown {
		return err
	}
	m := &move{event: onComplete, id: c.ID, agentID: c.AgentID, call: c, outcome: o, actor: viewer.auditActor()}
	if o.status == Failed {
		m.errorLine = errorline.Describe(&errorline.Failure{Kind: o.failure, Message: o.message, Result: o.result, Arguments: c.Arguments})
		m.data = map[string]any{"failure": o.failure, "effect": o.effect}
	}
	if c.Status == Executing {
		if err := s.moveCalls(ctx, s.Pool, m); err != nil {
			return err
		}
		s.announceMoves(ctx, m)
	}
	if m.made {
		return s.MarkDelivered(ctx, c.ID)
	}
	return s.keepLateOutcome(ctx, m)
}

// IsReleased reports whether a call of a tool with these arguments was released whose outcome is not reported yet. An unknown skill has none.
func (s *Service) IsReleased(ctx context.Context, viewer Viewer, skill, tool string, arguments json.RawMessage) (released bool, err error) {
	found, err := s.Agents.SkillByName(ctx, skill)
	if errors.Is(err, agent.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	err = postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		from, err := openFrom(ctx, tx)
		if err != nil {
			return err
		}
		return tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM calls WHERE agent_id = $2 AND (id >= $1 OR id = ANY(ARRAY(SELECT call_id FROM call_stragglers)))
			AND status = 'executing' AND skill_id = $3 AND tool = $4 AND arguments = $5 AND gate_host IS NOT NULL)`,
			from, viewer.AgentID, found.ID, tool, []byte(arguments)).Scan(&released)
	})
	if err != nil {
		return false, fmt.Errorf("find a released call of tool %s: %w", tool, err)
	}
	return released, nil
}

// LeaveGate records that a caller no longer waits for a call. The call stays as it is, and a repeat attaches to it. Errors: ErrNotFound.
func (s *Service) LeaveGate(ctx context.Context, viewer Viewer, id uuid.UUID, name string) error {
	c, _, err := s.loadGated(ctx, viewer, id)
	if err != nil {
		return fmt.Errorf("leave call %s: %w", id, err)
	}
	if c.Status != Parked && c.Status != Approved {
		return nil
	}
	event := audit.Event{Actor: viewer.auditActor(), Action: audit.CallCallerLeft, Subject: id, Origin: audit.OriginOf(ctx, viewer.auditActor())}
	err = postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		sql, args := `UPDATE gate_requests SET left_at = holdpoint_now() WHERE key = $1 AND call_id = $2 AND left_at IS NULL`, []any{c.gateKey(name), id}
		if name == "" { // the requests without a name leave together, once
			sql = `INSERT INTO gate_requests (key, call_id, sum, left_at) VALUES ($1, $2, $3, holdpoint_now()) ON CONFLICT (key) DO NOTHING`
			args = []any{hashParts(id[:]), id, c.gateSum()}
		}
		tag, err := tx.Exec(ctx, sql, args...)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		return audit.Write(ctx, tx, event)
	})
	if err != nil {
		return fmt.Errorf("leave call %s: %w", id, err)
	}
	return nil
}

// loadGated reads a gate-only call that the viewer may see, and its release; nil: it was not released. Error: ErrNotFound.
func (s *Service) loadGated(ctx context.Context, viewer Viewer, id uuid.UUID) (*Call, *gateRelease, error) {
	c, err := s.loadVisible(ctx, viewer, id)
	if err != nil {
		return nil, nil, err
	}
	if !c.GateOnly {
		return nil, nil, ErrNotFound
	}
	if c.Status == Parked || c.Status == Approved {
		return c, nil, nil
	}
	var r gateRelease
	err = s.Pool.QueryRow(ctx, `SELECT request_key, until, until > holdpoint_now() FROM gate_releases WHERE call_id = $1`, id).Scan(&r.key, &r.until, &r.lives)
	if errors.Is(err, pgx.ErrNoRows) {
		return c, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read the release: %w", err)
	}
	return c, &r, nil
}

// reportTime is how long the caller of a released call may take to report its outcome.
const reportTime = 24 * time.Hour

// endUnreported makes released calls unknown whose callers did not report an outcome in time.
func (s *Service) endUnreported(ctx context.Context, released []uuid.UUID) error {
	if len(released) == 0 {
		return nil
	}
	overdue, err := readIDs(ctx, s.vital, `SELECT call_id FROM gate_releases
		WHERE call_id = ANY($1) AND released_at < holdpoint_now() - $2 * interval '1 microsecond'`, released, reportTime.Microseconds())
	if err != nil {
		return fmt.Errorf("find calls without an outcome: %w", err)
	}
	for _, id := range overdue {
		m := &move{event: onUnreported, id: id, data: map[string]any{"code": CodeNotReported}, outcome: outcome{
			status: Unknown, code: CodeNotReported, effect: tool.EffectPossible, message: "the call was released, and its caller did not report the outcome",
		}}
		if err := s.moveCalls(ctx, s.vital, m); err != nil {
			return fmt.Errorf("end call %s: %w", id, err)
		}
		s.announceMoves(ctx, m)
	}
	return nil
}

// pendingUntil returns the deadline of a parked call, and the time until then.
func (s *Service) pendingUntil(ctx context.Context, id uuid.UUID) (time.Time, time.Duration, error) {
	a, err := approval.Get(ctx, s.Pool, id)
	if err != nil {
		return time.Time{}, 0, err
	}
	left, err := approval.TimeLeft(ctx, s.Pool, id)
	return a.Deadline, left, err
}
