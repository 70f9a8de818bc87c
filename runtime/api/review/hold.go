package review

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/runtime/api/rest"
	"github.com/holdpoint/holdpoint/runtime/call"
)

// Claim names the reviewer who works on an approval, or was asked to.
type Claim struct {
	By         string           `json:"by"`
	ByPerson   *rest.PersonName `json:"by_person" doc:"The person's id, issuer, subject and name."`
	At         time.Time        `json:"at"`
	AssignedBy *string          `json:"assigned_by" doc:"The reviewer who assigned it; null: the person claimed it."`
}

func newClaim(a *approval.Approval, names rest.PersonNames) *Claim {
	if a.HeldBy == uuid.Nil || a.HeldAt == nil {
		return nil
	}
	return &Claim{By: names.NameOf(a.HeldBy), ByPerson: names.RefOf(a.HeldBy), At: a.HeldAt.UTC(), AssignedBy: rest.OrNull(names.NameOf(a.AssignedBy))}
}

// Comment is a reviewer's remark for other reviewers.
type Comment struct {
	Number   int              `json:"number"`
	By       string           `json:"by"`
	ByPerson *rest.PersonName `json:"by_person" doc:"The person's id, issuer, subject and name."`
	At       time.Time        `json:"at"`
	Text     string           `json:"text"`
}

// commentViews presents the comments on an approval.
func (h *approvalHandlers) commentViews(ctx context.Context, comments []approval.Comment) ([]Comment, error) {
	people := make([]uuid.UUID, len(comments))
	for i := range comments {
		people[i] = comments[i].By
	}
	names, err := h.NamePeople(ctx, people...)
	if err != nil {
		return nil, err
	}
	views := make([]Comment, len(comments))
	for i, c := range comments {
		views[i] = Comment{Number: c.Number, By: names.NameOf(c.By), ByPerson: names.RefOf(c.By), At: c.At.UTC(), Text: c.Text}
	}
	return views, nil
}

func (h *approvalHandlers) claimApproval(ctx context.Context, input *rest.ByID) (*rest.Output[Approval], error) {
	return h.changeApproval(ctx, input.ID, func(id uuid.UUID) (call.Waiting, error) {
		return h.calls.Claim(ctx, id, rest.CallerOf(ctx).PersonID())
	})
}

func (h *approvalHandlers) releaseApproval(ctx context.Context, input *rest.ByID) (*rest.Output[Approval], error) {
	return h.changeApproval(ctx, input.ID, func(id uuid.UUID) (call.Waiting, error) {
		return h.calls.Release(ctx, id, rest.CallerOf(ctx).PersonID())
	})
}

type assignInput struct {
	rest.ByID
	Body struct {
		Person uuid.UUID `json:"person" format:"uuid" doc:"The id of a reviewer who may decide the call."`
	} `nameHint:"AssignApprovalRequest"`
}

func (h *approvalHandlers) assignApproval(ctx context.Context, input *assignInput) (*rest.Output[Approval], error) {
	return h.changeApproval(ctx, input.ID, func(id uuid.UUID) (call.Waiting, error) {
		return h.calls.Assign(ctx, id, input.Body.Person, rest.CallerOf(ctx).PersonID(), h.Identity)
	})
}

type commentInput struct {
	rest.ByID
	Body struct {
		Text string `json:"text" minLength:"1" maxLength:"2000" doc:"For other reviewers. Agents never see it."`
	} `nameHint:"CommentRequest"`
}

func (h *approvalHandlers) commentApproval(ctx context.Context, input *commentInput) (*rest.Output[Approval], error) {
	return h.changeApproval(ctx, input.ID, func(id uuid.UUID) (call.Waiting, error) {
		return h.calls.Comment(ctx, id, rest.CallerOf(ctx).PersonID(), input.Body.Text)
	})
}

// changeApproval calls change with the id of an approval and answers with the result.
func (h *approvalHandlers) changeApproval(ctx context.Context, text string, change func(uuid.UUID) (call.Waiting, error)) (*rest.Output[Approval], error) {
	id, err := rest.ParseID("approval", text)
	if err != nil {
		return nil, err
	}
	changed, err := change(id)
	if errors.Is(err, approval.ErrComments) {
		return nil, rest.NewProblem(http.StatusConflict, rest.CodeStateConflict, "the call has %d comments, which is as many as it may have", approval.MaxComments)
	}
	if err != nil {
		return nil, rest.WithName(err, "approval", text)
	}
	return h.approvalView(ctx, changed)
}
