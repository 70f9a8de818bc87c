package api

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// maxNote bounds what a reviewer writes, in characters.
const maxNote = 4000

// Approval is the request to decide about one parked call.
type Approval struct {
	ID              uuid.UUID       `json:"id" format:"uuid" doc:"The call's id too."`
	CallID          uuid.UUID       `json:"call_id" format:"uuid"`
	Status          approval.Status `json:"status" enum:"pending,approved,rejected,expired,cancelled"`
	Agent           string          `json:"agent"`
	Skill           string          `json:"skill"`
	Tool            string          `json:"tool" doc:"The skill's own name of the tool."`
	Arguments       json.RawMessage `json:"arguments" doc:"Byte for byte as they will be sent."`
	Files           []AttachedFile  `json:"files" nullable:"false" doc:"Attached when the call was made; the digest is of them too."`
	Request         *Outgoing       `json:"request" doc:"Of HTTP APIs: the very request that is sent, secrets masked; the digest is of it too. Else, and in lists, null."`
	Digest          string          `json:"digest" doc:"Of everything that the decision is about; hand it back with the decision."`
	ArgumentsDigest string          `json:"arguments_digest" doc:"SHA-256 of the argument bytes, in hex."`
	ToolPin         string          `json:"tool_pin" doc:"Digest of the tool's definition, in hex."`
	Principal       *string         `json:"principal" doc:"The person on whose behalf the agent acts; null with a bare agent key."`
	PrincipalPerson *PersonName     `json:"principal_person" doc:"Who that is: an id, an issuer and a subject beside the name."`
	CreatedAt       time.Time       `json:"created_at"`
	Deadline        time.Time       `json:"deadline"`
	ApprovedUntil   *time.Time      `json:"approved_until" doc:"Until when the approved call may be sent. Null: it is not approved."`
	Decision        *Decision       `json:"decision" doc:"Null while it is pending."`
	Team            *string         `json:"team" doc:"Whose queue it is in first; null: everybody's."`
	EscalateTo      *string         `json:"escalate_to" doc:"The team that is asked at half of the deadline."`
	EscalatedAt     *time.Time      `json:"escalated_at"`
	Edited          bool            `json:"edited" doc:"A reviewer gave the call other arguments than it was made with; those are the call's submitted_arguments."`
	Edit            *Edit           `json:"edit" doc:"The edit that waits for, or got, a second reviewer; null: there is none."`
	Reviewers       *bool           `json:"reviewers" doc:"Of one pending approval, got by its id: whether there is anybody who may decide about it. Else null."`
	Risk            *agent.Risk     `json:"risk" enum:"standard,destructive,high" doc:"Of one pending approval, got by its id: high, which an operator said of the tool, or destructive, which its server claims. Else null."`
	Rule            parkingRule     `json:"rule" doc:"Why the call was parked."`
	Questions       []Question      `json:"questions" nullable:"false" doc:"Of one approval, got by its id: what the skill's server asked after the approval. In lists empty."`
	Partial         bool            `json:"partial,omitempty" doc:"In lists: the arguments are larger than 64 KiB and were left out; get the approval by its id."`
}

// Edit is an edit of a call's arguments that its editor may not approve. While it waits, arguments, request and digest of the approval
// are those of the edit.
type Edit struct {
	By        string          `json:"by" doc:"The reviewer who wrote it, who may not approve it."`
	ByPerson  *PersonName     `json:"by_person" doc:"Who that is."`
	At        time.Time       `json:"at"`
	Submitted json.RawMessage `json:"submitted_arguments" doc:"As the agent gave them. A decision with these discards the edit. In lists, null where they are larger than 64 KiB."`
}

func newEdit(w call.Waiting, names personNames) *Edit {
	if w.Approval.EditedBy == uuid.Nil || w.Approval.EditedAt == nil {
		return nil
	}
	return &Edit{By: names.of(w.Approval.EditedBy), ByPerson: names.ref(w.Approval.EditedBy), At: w.Approval.EditedAt.UTC(), Submitted: w.Call.Submitted}
}

func newApproval(w call.Waiting, names personNames) Approval {
	sum := w.Call.ArgumentsDigest()
	return Approval{
		ID: w.Approval.CallID, CallID: w.Approval.CallID, Status: w.Approval.Status,
		Agent: w.Call.Agent, Skill: w.Call.Skill, Tool: w.Call.Tool, Arguments: w.Call.Arguments, Files: attachedFiles(w.Call.Files),
		Digest: w.Approval.Digest.String(), ArgumentsDigest: hex.EncodeToString(sum[:]), ToolPin: w.Call.Pin.String(),
		Principal: orNull(names.of(w.Call.PrincipalID)), PrincipalPerson: names.ref(w.Call.PrincipalID), CreatedAt: w.Approval.CreatedAt.UTC(), Deadline: w.Approval.Deadline.UTC(),
		ApprovedUntil: utcOrNull(w.Approval.ApprovedUntil),
		Decision:      newDecision(w.Approval, names), Rule: parkingRule(w.Approval.Rule), Partial: w.Call.Partial,
		Team: orNull(w.Approval.Team), EscalateTo: orNull(w.Approval.EscalateTo), EscalatedAt: utcOrNull(w.Approval.EscalatedAt),
		Edited: w.Approval.Edited(), Edit: newEdit(w, names), Questions: []Question{},
	}
}

// approvalViews adds the names of people.
func (a *API) approvalViews(ctx context.Context, waiting ...call.Waiting) (func(call.Waiting) Approval, error) {
	var people []uuid.UUID
	for _, w := range waiting {
		people = append(people, w.Call.PrincipalID, w.Approval.DecidedBy, w.Approval.EditedBy)
	}
	names, err := a.people(ctx, people...)
	return func(w call.Waiting) Approval { return newApproval(w, names) }, err
}

func (a *API) approvalView(ctx context.Context, w call.Waiting) (*bodyOutput[Approval], error) {
	view, err := a.approvalViews(ctx, w)
	if err != nil {
		return nil, err
	}
	answer := output(view(w))
	if answer.Body.Request, err = outgoingOf(&w.Call); err != nil {
		return nil, err
	}
	answer.Body.Questions, err = a.questionsOf(ctx, w.Call.ID)
	return answer, err
}

type listApprovalsInput struct {
	Page
	Status string `query:"status" enum:"pending,approved,rejected,expired,cancelled"`
}

func (a *API) listApprovals(ctx context.Context, input *listApprovalsInput) (*listOutput[Approval], error) {
	before, err := input.idCursor()
	if err != nil {
		return nil, err
	}
	waiting, next, err := a.calls.Approvals(ctx, call.QueueFilter{
		Status: approval.Status(input.Status), Before: before, Limit: input.Limit,
	})
	if err != nil {
		return nil, err
	}
	view, err := a.approvalViews(ctx, waiting...)
	if err != nil {
		return nil, err
	}
	return listOf(waiting, cursorOf(next), view), nil
}

func (a *API) getApproval(ctx context.Context, input *ByID) (*bodyOutput[Approval], error) {
	id, err := idOf("approval", input.ID)
	if err != nil {
		return nil, err
	}
	waiting, err := a.calls.Approval(ctx, id)
	if err != nil {
		return nil, named(err, "approval", input.ID)
	}
	answer, err := a.approvalView(ctx, waiting)
	if err != nil || waiting.Approval.Status != approval.Pending {
		return answer, err
	}
	someone, err := a.calls.Reviewed(ctx, &waiting.Call)
	if err != nil {
		return nil, err
	}
	definitions, err := a.discovery.Definitions(ctx, []tool.Pin{waiting.Call.Pin})
	if err != nil {
		return nil, err
	}
	risk, err := a.agents.RiskOf(ctx, waiting.Call.SkillID, waiting.Call.Tool, definitions[waiting.Call.Pin])
	answer.Body.Reviewers, answer.Body.Risk = &someone, &risk
	return answer, err
}

// extend gives a parked call more time.
func (a *API) extend(ctx context.Context, input *ByID) (*bodyOutput[Approval], error) {
	id, err := idOf("approval", input.ID)
	if err != nil {
		return nil, err
	}
	extended, err := a.calls.Extend(ctx, id, callerOf(ctx).personID())
	if errors.Is(err, approval.ErrExtended) {
		return nil, problem(http.StatusConflict, CodeStateConflict,
			"the deadline was moved %d times, which is as often as it may be", approval.MaxExtensions)
	}
	if err != nil {
		return nil, named(err, "approval", input.ID)
	}
	return a.approvalView(ctx, extended)
}

// looseDigest is a digest as somebody sent it. What is no string is no
// digest, so it differs from every one: a mismatch, not a malformed request.
type looseDigest string

func (d *looseDigest) UnmarshalJSON(text []byte) error {
	var s string
	if err := json.Unmarshal(text, &s); err == nil {
		*d = looseDigest(s)
	}
	return nil
}

type approveInput struct {
	ByID
	Body *struct {
		Digest    looseDigest     `json:"digest" doc:"As it was shown with the approval."`
		Note      string          `json:"note,omitempty" maxLength:"4000"`
		Arguments json.RawMessage `json:"arguments,omitempty" doc:"Sent instead of those that wait. They are checked against the tool's schema; the agent is told. Where the skill's edits need a second reviewer, nothing is approved yet: the answer is 202, and the edit waits for another reviewer."`
	} `nameHint:"ApproveRequest"`
}

// approveOutput answers 202 where nothing is approved yet.
type approveOutput struct {
	Status int
	Body   Approval
}

func (a *API) approve(ctx context.Context, input *approveInput) (*approveOutput, error) {
	decision := call.Decision{Approve: true}
	if body := input.Body; body != nil {
		decision.Digest, decision.Note, decision.Arguments = string(body.Digest), body.Note, body.Arguments
	}
	decided, err := a.decide(ctx, input.ID, decision, "body.note")
	if err != nil {
		return nil, err
	}
	answer := &approveOutput{Status: http.StatusOK, Body: decided.Body}
	if answer.Body.Status == approval.Pending {
		answer.Status = http.StatusAccepted
	}
	return answer, nil
}

type rejectInput struct {
	ByID
	Body *struct {
		Digest looseDigest `json:"digest" doc:"As it was shown with the approval."`
		Reason string      `json:"reason" minLength:"1" maxLength:"4000" doc:"For the agent: why, and what to do instead."`
	} `nameHint:"RejectRequest"`
}

func (a *API) reject(ctx context.Context, input *rejectInput) (*bodyOutput[Approval], error) {
	decision := call.Decision{}
	if body := input.Body; body != nil {
		decision.Digest, decision.Note = string(body.Digest), body.Reason
	}
	if strings.TrimSpace(decision.Note) == "" {
		return nil, invalid("body.reason", "expected a reason that is not empty")
	}
	return a.decide(ctx, input.ID, decision, "body.reason")
}

func (a *API) decide(ctx context.Context, id string, d call.Decision, note string) (*bodyOutput[Approval], error) {
	if n := utf8.RuneCountInString(d.Note); n > maxNote {
		return nil, invalid(note, "expected at most %d characters, not %d", maxNote, n)
	}
	err := storable(note, d.Note)
	if err != nil {
		return nil, err
	}
	if d.CallID, err = idOf("approval", id); err != nil {
		return nil, err
	}
	d.By = callerOf(ctx).personID()
	decided, err := a.calls.Decide(ctx, d)
	if refused, ok := errors.AsType[*call.EditError](err); ok {
		return nil, editProblem(refused)
	}
	if err != nil {
		return nil, named(err, "approval", id)
	}
	return a.approvalView(ctx, decided)
}

// editProblem says where edited arguments are not what the tool takes.
func editProblem(refused *call.EditError) *Problem {
	const location = "body.arguments"
	if refused.Cause != nil {
		return invalid(location, "%s", refused.Cause.Error())
	}
	p := problem(http.StatusUnprocessableEntity, CodeInvalidRequest, "%s: they do not match the tool's schema", location)
	for _, found := range refused.Problems {
		p.Errors = append(p.Errors, ProblemField{Location: location + found.Pointer, Message: found.Message})
	}
	return p
}

// parkingRule is a rule that parks a call.
type parkingRule approval.Rule

// Schema implements [huma.SchemaProvider].
func (parkingRule) Schema(huma.Registry) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString}
	for _, rule := range approval.ParkingRules() {
		s.Enum = append(s.Enum, string(rule))
	}
	return s
}
