package review

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/api/rest"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// maxNote limits a reviewer's note, in characters.
const maxNote = 4000

type approvalHandlers struct {
	*rest.Directory

	calls     *call.Service
	discovery *tool.Discovery
}

// Approval is the request to decide about one parked call.
type Approval struct {
	ID              uuid.UUID        `json:"id" format:"uuid" doc:"The call has the same id."`
	CallID          uuid.UUID        `json:"call_id" format:"uuid"`
	Status          approval.Status  `json:"status" enum:"pending,approved,rejected,expired,cancelled"`
	Agent           string           `json:"agent"`
	Skill           string           `json:"skill"`
	Tool            string           `json:"tool" doc:"The skill's own name for the tool."`
	Arguments       json.RawMessage  `json:"arguments" doc:"The exact bytes that will be sent."`
	Files           []AttachedFile   `json:"files" nullable:"false" doc:"Attached when the call was made; the digest covers them."`
	Request         *rest.Outgoing   `json:"request" doc:"For HTTP APIs: the exact request, with secrets masked; the digest covers it. Otherwise, and in lists, null."`
	Gate            *GateCaller      `json:"gate" doc:"Of a gate-only call: what its caller says about itself. Null: Holdpoint sends the call."`
	Digest          string           `json:"digest" doc:"Covers everything that the decision is about; send it back with the decision."`
	ArgumentsDigest string           `json:"arguments_digest" doc:"SHA-256 of the argument bytes, in hex."`
	ToolPin         string           `json:"tool_pin" doc:"Digest of the tool's definition, in hex."`
	Principal       *string          `json:"principal" doc:"The person on whose behalf the agent acts; null with a bare agent key."`
	PrincipalPerson *rest.PersonName `json:"principal_person" doc:"The person's id, issuer, subject and name."`
	CreatedAt       time.Time        `json:"created_at"`
	Deadline        time.Time        `json:"deadline"`
	ApprovedUntil   *time.Time       `json:"approved_until" doc:"The deadline for sending the approved call. Null: it is not approved."`
	Decision        *rest.Decision   `json:"decision" doc:"Null while it is pending."`
	Team            *string          `json:"team" doc:"The team whose queue it is in first; null: all teams."`
	EscalateTo      *string          `json:"escalate_to" doc:"The team that is notified at half of the deadline; null: none, or escalation has its steps."`
	EscalatedAt     *time.Time       `json:"escalated_at" doc:"When the first step was taken."`
	Escalation      []Step           `json:"escalation" nullable:"false" doc:"The steps by which more teams and people are asked while it is pending."`
	Edited          bool             `json:"edited" doc:"A reviewer changed the arguments; the original ones are the call's submitted_arguments."`
	Edit            *Edit            `json:"edit" doc:"The edit that waits for a second reviewer or was approved by one; null: none."`
	Reviewers       *bool            `json:"reviewers" doc:"Whether the present reviewers can approve it: one may decide it, and they can meet its policies. Only for a pending approval that is fetched by id; otherwise null."`
	Risk            *agent.Risk      `json:"risk" enum:"standard,destructive,high" doc:"high: set by an operator; destructive: claimed by the tool's server. Only for a pending approval that is fetched by id; otherwise null."`
	Rule            parkingRule      `json:"rule" doc:"Why the call was parked."`
	Rules           []AppliedRule    `json:"rules" nullable:"false" doc:"Operators' rules that matched the call, or failed, when it was judged last."`
	Questions       []Question       `json:"questions" nullable:"false" doc:"Questions of the skill's server after the approval. Empty in lists."`
	Claim           *Claim           `json:"claim" doc:"The reviewer who claimed the call or was assigned; null: none. It limits nobody."`
	CommentCount    int              `json:"comment_count"`
	Comments        []Comment        `json:"comments" nullable:"false" doc:"Remarks of reviewers for each other, oldest first; agents never see them. Empty in lists."`
	Evidence        []Evidence       `json:"evidence" nullable:"false" doc:"One entry for each argument of a pending call, compared with approved calls of the tool. Empty in lists."`
	Policies        []CallPolicy     `json:"policies" nullable:"false" doc:"The policies that the call has to meet, and how far votes meet them. Empty: one reviewer decides. Empty in lists."`
	Shortages       []PolicyShortage `json:"shortages" nullable:"false" doc:"Why the present reviewers cannot meet its policies: lines that too few people can meet. Only for a pending approval that is fetched by id."`
	Votes           []Vote           `json:"votes" nullable:"false" doc:"Votes on a call with policies, oldest first. Empty in lists."`
	BrokeGlass      bool             `json:"broke_glass" doc:"One person approved alone, though policies ask for others."`
	GlassReview     *GlassReview     `json:"glass_review" doc:"The review of an approval that one person gave alone; null: none."`
	Partial         bool             `json:"partial,omitempty" doc:"In lists: the arguments are larger than 64 KiB and are omitted; get the approval by its id."`
}

// Edit is an edit of a call's arguments that its editor may not approve. While it waits, arguments, request and digest of the approval
// are those of the edit.
type Edit struct {
	By        string           `json:"by" doc:"The reviewer who made the edit and may not approve it."`
	ByPerson  *rest.PersonName `json:"by_person" doc:"The person's id, issuer, subject and name."`
	At        time.Time        `json:"at"`
	Submitted json.RawMessage  `json:"submitted_arguments" doc:"As the agent submitted them. A decision with these discards the edit. In lists, null if larger than 64 KiB."`
}

func newEdit(w call.Waiting, names rest.PersonNames) *Edit {
	if w.Approval.EditedBy == uuid.Nil || w.Approval.EditedAt == nil {
		return nil
	}
	return &Edit{By: names.NameOf(w.Approval.EditedBy), ByPerson: names.RefOf(w.Approval.EditedBy), At: w.Approval.EditedAt.UTC(), Submitted: w.Call.Submitted}
}

func newApproval(w call.Waiting, names rest.PersonNames) Approval {
	sum := w.Call.ArgumentsDigest()
	return Approval{
		ID: w.Approval.CallID, CallID: w.Approval.CallID, Status: w.Approval.Status,
		Agent: w.Call.Agent, Skill: w.Call.Skill, Tool: w.Call.Tool, Arguments: w.Call.Arguments, Files: attachedFiles(w.Call.Files),
		Gate: newGateCaller(&w.Call), Digest: w.Approval.Digest.String(), ArgumentsDigest: hex.EncodeToString(sum[:]), ToolPin: w.Call.Pin.String(),
		Principal: rest.OrNull(names.NameOf(w.Call.PrincipalID)), PrincipalPerson: names.RefOf(w.Call.PrincipalID), CreatedAt: w.Approval.CreatedAt.UTC(), Deadline: w.Approval.Deadline.UTC(),
		ApprovedUntil: rest.UTCOrNull(w.Approval.ApprovedUntil),
		Decision:      rest.NewDecision(w.Approval, names), Rule: parkingRule(w.Approval.Rule), Rules: appliedRules(w.Call.Rules), Partial: w.Call.Partial,
		Team: rest.OrNull(w.Approval.Team), EscalateTo: rest.OrNull(w.Approval.EscalateTo), EscalatedAt: rest.UTCOrNull(w.Approval.EscalatedAt), Escalation: newSteps(&w.Approval),
		Edited: w.Approval.Edited(), Edit: newEdit(w, names), Questions: []Question{}, Evidence: []Evidence{},
		Claim: newClaim(&w.Approval, names), CommentCount: w.Approval.Comments, Comments: []Comment{},
		Policies: []CallPolicy{}, Shortages: []PolicyShortage{}, Votes: []Vote{}, BrokeGlass: w.Approval.BrokeGlass, GlassReview: newGlassReview(&w.Approval, names),
	}
}

// Step is a step of an approval's escalation.
type Step struct {
	Teams  []string  `json:"teams" nullable:"false"`
	People []string  `json:"people" nullable:"false" doc:"As operators wrote them: e-mail addresses, names or ids."`
	At     time.Time `json:"at" doc:"When it was taken, or will be if the call is still pending."`
	Taken  bool      `json:"taken"`
}

func newSteps(a *approval.Approval) []Step {
	steps := []Step{}
	for _, s := range a.Plan() {
		steps = append(steps, Step{Teams: rest.OrEmpty(s.Teams), People: rest.OrEmpty(s.People), At: s.At.UTC(), Taken: s.Taken})
	}
	return steps
}

func newGlassReview(a *approval.Approval, names rest.PersonNames) *GlassReview {
	if a.GlassReview == nil {
		return nil
	}
	by := a.GlassReview.By
	return &GlassReview{names.NameOf(by), names.RefOf(by), a.GlassReview.At.UTC(), a.GlassReview.Note}
}

// listPeople returns the people whom an approval names, with repetitions.
func listPeople(w *call.Waiting) []uuid.UUID {
	people := []uuid.UUID{w.Call.PrincipalID, w.Approval.DecidedBy, w.Approval.EditedBy, w.Approval.HeldBy, w.Approval.AssignedBy}
	if review := w.Approval.GlassReview; review != nil {
		people = append(people, review.By)
	}
	return people
}

// approvalView presents an approval with all that belongs to it. It reads that in one round trip if nothing was asked or commented.
func (h *approvalHandlers) approvalView(ctx context.Context, w call.Waiting) (*rest.Output[Approval], error) {
	isPending := w.Approval.Status == approval.Pending
	people, batch := map[uuid.UUID]identity.Person{}, &pgx.Batch{}
	var newest uuid.UUID
	var questions []call.AskedQuestion
	var comments []approval.Comment
	identity.QueuePeople(batch, listPeople(&w), people)
	if isPending {
		call.QueueNewest(batch, &w.Call, &newest)
	} else { // nothing was asked before the call is sent
		call.QueueQuestions(batch, w.Call.ID, &questions)
	}
	if w.Approval.Comments > 0 {
		approval.QueueComments(batch, w.Call.ID, &comments)
	}
	if err := h.calls.Pool.SendBatch(ctx, batch).Close(); err != nil {
		return nil, fmt.Errorf("read approval %s: %w", w.Call.ID, err)
	}
	names, err := h.AddWarnings(ctx, people)
	if err != nil {
		return nil, err
	}
	answer := rest.NewOutput(newApproval(w, names))
	if answer.Body.Request, err = outgoingOf(&w.Call); err != nil {
		return nil, err
	}
	if answer.Body.Comments, err = h.commentViews(ctx, comments); err != nil {
		return nil, err
	}
	if err := h.addVotes(ctx, &w.Approval, &answer.Body); err != nil {
		return nil, err
	}
	if isPending {
		answer.Body.Evidence, err = h.readEvidence(ctx, &w.Call, newest)
		return answer, err
	}
	answer.Body.Questions, err = h.questionViews(ctx, questions)
	return answer, err
}

type listApprovalsInput struct {
	rest.Page
	Status string `query:"status" enum:"pending,approved,rejected,expired,cancelled"`
}

func (h *approvalHandlers) listApprovals(ctx context.Context, input *listApprovalsInput) (*rest.ListOutput[Approval], error) {
	before, err := input.IDCursor()
	if err != nil {
		return nil, err
	}
	waiting, next, err := h.calls.ListApprovals(ctx, call.QueueFilter{
		Status: approval.Status(input.Status), Before: before, Limit: input.Limit,
	})
	if err != nil {
		return nil, err
	}
	var people []uuid.UUID
	for i := range waiting {
		people = append(people, listPeople(&waiting[i])...)
	}
	names, err := h.NamePeople(ctx, people...)
	if err != nil {
		return nil, err
	}
	return rest.ListOf(waiting, rest.CursorOf(next), func(w call.Waiting) Approval { return newApproval(w, names) }), nil
}

func (h *approvalHandlers) getApproval(ctx context.Context, input *rest.ByID) (*rest.Output[Approval], error) {
	id, err := rest.ParseID("approval", input.ID)
	if err != nil {
		return nil, err
	}
	waiting, err := h.calls.GetApproval(ctx, id)
	if err != nil {
		return nil, rest.WithName(err, "approval", input.ID)
	}
	answer, err := h.approvalView(ctx, waiting)
	if err != nil || waiting.Approval.Status != approval.Pending {
		return answer, err
	}
	lack, err := h.calls.FindLack(ctx, &waiting.Approval)
	if err != nil {
		return nil, err
	}
	for i := range lack.Shortages {
		one := &lack.Shortages[i]
		answer.Body.Shortages = append(answer.Body.Shortages, PolicyShortage{one.Policy, one.Line.String(), one.Able})
	}
	definitions, err := h.discovery.Definitions(ctx, []tool.Pin{waiting.Call.Pin})
	if err != nil {
		return nil, err
	}
	risk, err := h.Agents.RiskOf(ctx, waiting.Call.SkillID, waiting.Call.Tool, definitions[waiting.Call.Pin])
	answer.Body.Reviewers, answer.Body.Risk = new(!lack.IsAny()), &risk
	return answer, err
}

// extendApproval gives a parked call more time.
func (h *approvalHandlers) extendApproval(ctx context.Context, input *rest.ByID) (*rest.Output[Approval], error) {
	id, err := rest.ParseID("approval", input.ID)
	if err != nil {
		return nil, err
	}
	extended, err := h.calls.Extend(ctx, id, rest.CallerOf(ctx).PersonID())
	if errors.Is(err, approval.ErrExtended) {
		return nil, rest.NewProblem(http.StatusConflict, rest.CodeStateConflict,
			"the deadline was moved %d times, which is as often as it may be", approval.MaxExtensions)
	}
	if err != nil {
		return nil, rest.WithName(err, "approval", input.ID)
	}
	return h.approvalView(ctx, extended)
}

// looseDigest is a digest as sent. A value that is not a string matches no digest: a mismatch, not a malformed request.
type looseDigest string

func (d *looseDigest) UnmarshalJSON(text []byte) error {
	var s string
	if err := json.Unmarshal(text, &s); err == nil {
		*d = looseDigest(s)
	}
	return nil
}

type approveInput struct {
	rest.ByID
	Body *struct {
		Digest     looseDigest     `json:"digest" doc:"The digest of the approval that was shown."`
		Note       string          `json:"note,omitempty" maxLength:"4000"`
		Arguments  json.RawMessage `json:"arguments,omitempty" doc:"Replace the pending arguments. They are validated against the tool's schema, and the agent is notified. If the skill's edits need a second reviewer, nothing is approved yet: the response is 202, and the edit waits for another reviewer."`
		BreakGlass bool            `json:"break_glass,omitempty" doc:"Approve alone, though the policies of the call ask for others. They have to allow that, and the note has to say why."`
	} `nameHint:"ApproveRequest"`
}

// approveOutput answers 202 where nothing is approved yet.
type approveOutput struct {
	Status int
	Body   Approval
}

func (h *approvalHandlers) approveCall(ctx context.Context, input *approveInput) (*approveOutput, error) {
	decision := call.Decision{Approve: true}
	if body := input.Body; body != nil {
		decision.Digest, decision.Note, decision.Arguments = string(body.Digest), body.Note, body.Arguments
		decision.BreakGlass = body.BreakGlass
	}
	decided, err := h.decideCall(ctx, input.ID, decision, "body.note")
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
	rest.ByID
	Body *struct {
		Digest looseDigest `json:"digest" doc:"The digest of the approval that was shown."`
		Reason string      `json:"reason" minLength:"1" maxLength:"4000" doc:"For the agent: the reason, and what to do instead."`
	} `nameHint:"RejectRequest"`
}

func (h *approvalHandlers) rejectCall(ctx context.Context, input *rejectInput) (*rest.Output[Approval], error) {
	decision := call.Decision{}
	if body := input.Body; body != nil {
		decision.Digest, decision.Note = string(body.Digest), body.Reason
	}
	if strings.TrimSpace(decision.Note) == "" {
		return nil, rest.InvalidField("body.reason", "must not be empty")
	}
	return h.decideCall(ctx, input.ID, decision, "body.reason")
}

func (h *approvalHandlers) decideCall(ctx context.Context, id string, d call.Decision, note string) (*rest.Output[Approval], error) {
	if n := utf8.RuneCountInString(d.Note); n > maxNote {
		return nil, rest.InvalidField(note, "must be at most %d characters, not %d", maxNote, n)
	}
	err := rest.CheckStorable(note, d.Note)
	if err != nil {
		return nil, err
	}
	if d.CallID, err = rest.ParseID("approval", id); err != nil {
		return nil, err
	}
	d.By = rest.CallerOf(ctx).PersonID()
	decided, err := h.calls.Decide(ctx, d)
	if refused, ok := errors.AsType[*call.EditError](err); ok {
		return nil, editProblem(refused)
	}
	if err != nil {
		return nil, rest.WithName(err, "approval", id)
	}
	return h.approvalView(ctx, decided)
}

// editProblem reports the invalid edited arguments.
func editProblem(refused *call.EditError) *rest.Problem {
	const location = "body.arguments"
	if refused.Cause != nil {
		return rest.InvalidField(location, "%s", refused.Cause.Error())
	}
	p := rest.NewProblem(http.StatusUnprocessableEntity, rest.CodeInvalidRequest, "%s: they do not match the tool's schema", location)
	for _, found := range refused.Problems {
		p.Errors = append(p.Errors, rest.ProblemField{Location: location + found.Pointer, Message: found.Message})
	}
	return p
}

// parkingRule is a rule that parks a call.
type parkingRule approval.Rule

// Schema implements [huma.SchemaProvider].
func (parkingRule) Schema(huma.Registry) *huma.Schema { return enumOf(approval.ParkingRules()...) }
