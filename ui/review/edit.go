package review

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/ui/argform"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// The names of the edit form's values.
const (
	editAsField   = "as"     // form or json: which editor was sent, or is wanted
	editJSONField = "json"   // the text of the JSON editor
	editedField   = "edited" // of a decision: the arguments to be sent instead

	asOriginal = "original" // no editor is wanted, but the agent's arguments instead of the edit that waits
)

// Edit opens the editor on a call's arguments, or previews sent ones. It decides nothing. The editor shows secrets, which is logged.
func (h *DecisionHandler) Edit(w http.ResponseWriter, r *http.Request) {
	subject, ok := h.readDecidable(w, r)
	if !ok {
		return
	}
	how := shown{draft: r.PostFormValue(reasonField)}
	form, formErr := subject.editForm()
	as := r.PostFormValue(editAsField)
	switch sent := r.PostFormValue("sent"); {
	case sent == "json":
		how.editing, how.edited = h.readJSON(r.Context(), subject, r.PostFormValue(editJSONField))
	case sent == "form" && formErr == nil:
		how.editing, how.edited = h.readForm(r, subject, form)
	case as == asOriginal && subject.editWaits():
		if err := h.recordReveal(r, subject, subject.call.Submitted); err != nil {
			h.Fail(w, r, err)
			return
		}
		how.edited = subject.call.Submitted
	default:
		if err := h.recordReveal(r, subject, subject.call.Arguments); err != nil {
			h.Fail(w, r, err)
			return
		}
		if formErr != nil || as == "json" {
			how.editing = &view.Editing{JSON: argform.Source(subject.call.Arguments), Form: formErr == nil}
		} else {
			how.editing = present.EditForm(form)
		}
	}
	status := http.StatusOK
	if how.editing != nil && len(how.editing.Problems) > 0 {
		status = http.StatusUnprocessableEntity
	}
	h.callPages.answerWithCall(w, r, status, how)
}

// readDecidable returns the call of a form if the person may decide it and its digest is current. Otherwise it answers.
func (h *DecisionHandler) readDecidable(w http.ResponseWriter, r *http.Request) (*subject, bool) {
	id, err := shell.CallID(r)
	if err != nil {
		h.Fail(w, r, err)
		return nil, false
	}
	access, _ := login.Access(r.Context())
	subject, err := h.reader.readSubject(r.Context(), access, id)
	if err != nil {
		h.Fail(w, r, err)
		return nil, false
	}
	switch why, ok := subject.mayDecide(access); {
	case subject.approval == nil:
		h.Fail(w, r, approval.ErrNotFound)
	case subject.approval.Status != approval.Pending:
		h.notDecided(w, r, &approval.ConflictError{Approval: *subject.approval})
	case subject.approval.Digest.String() != r.PostFormValue("digest"):
		h.notDecided(w, r, approval.ErrDigestMismatch)
	case !ok:
		h.callPages.answerWithCall(w, r, http.StatusForbidden, shown{notice: &view.Notice{Level: view.Warn, Title: text.ReviewNotForYou(), Text: why}})
	default:
		return subject, true
	}
	return nil, false
}

// carryEdit checks the edited arguments that a form carries from step to step. They are valid if there are none or they can be sent;
// otherwise how names the problem. If it is not ok, carryEdit has answered.
func (h *DecisionHandler) carryEdit(w http.ResponseWriter, r *http.Request, how *shown) (valid, ok bool) {
	typed := r.PostFormValue(editedField)
	if typed == "" {
		return true, true
	}
	subject, ok := h.readDecidable(w, r)
	if !ok {
		return false, false
	}
	edited, problems := h.checkEdit(r.Context(), subject, []byte(typed))
	if how.edited = edited; len(problems) > 0 {
		how.notice = &view.Notice{
			Level: view.Danger, Title: text.ReviewEditInvalid(), Draft: shell.Clean(typed),
			Text: text.ReviewEditInvalidHelp(),
		}
	}
	return len(problems) == 0, true
}

// recordReveal logs that an editor shows secrets.
func (h *DecisionHandler) recordReveal(r *http.Request, s *subject, arguments []byte) error {
	hidden := s.secrets.Count(arguments)
	if hidden == 0 {
		return nil
	}
	access, _ := login.Access(r.Context())
	return h.calls.RecordReveal(r.Context(), s.call.ID, access.Person.ID, hidden, "editor")
}

func (s *subject) editForm() (argform.Form, error) {
	if s.definition == nil {
		return argform.Form{}, argform.ErrNotFlat
	}
	return argform.Read(s.definition.InputSchema, s.call.Arguments)
}

// readJSON reads the text of the JSON editor. It returns the arguments, or the editor with their problems.
func (h *DecisionHandler) readJSON(ctx context.Context, s *subject, typed string) (*view.Editing, json.RawMessage) {
	edited, problems := h.checkEdit(ctx, s, []byte(typed))
	if len(problems) > 0 {
		_, err := s.editForm()
		return &view.Editing{JSON: shell.Clean(typed), Form: err == nil, Problems: problems}, nil
	}
	return nil, s.keepIfSame(edited)
}

func (h *DecisionHandler) readForm(r *http.Request, s *subject, form argform.Form) (*view.Editing, json.RawMessage) {
	raw, wrong := form.Bytes(r.PostForm)
	problems := make([]view.Problem, 0, len(wrong))
	for _, p := range wrong {
		problems = append(problems, view.Problem{Where: p.Field, Text: p.Expected})
	}
	var edited json.RawMessage
	if len(problems) == 0 {
		edited, problems = h.checkEdit(r.Context(), s, raw)
	}
	if len(problems) > 0 {
		again := present.EditForm(form.With(r.PostForm))
		again.Problems = problems
		return again, nil
	}
	return nil, s.keepIfSame(edited)
}

// keepIfSame returns the stored arguments if the edit does not change them: escapes in place of invisible characters are no edit.
func (s *subject) keepIfSame(edited json.RawMessage) json.RawMessage {
	if source, err := call.CleanArguments([]byte(argform.Source(s.call.Arguments))); err == nil && bytes.Equal(source, edited) {
		return s.call.Arguments
	}
	return edited
}

// checkEdit returns the arguments as they would be sent, or their problems.
func (h *DecisionHandler) checkEdit(ctx context.Context, s *subject, arguments []byte) (json.RawMessage, []view.Problem) {
	edited, err := h.calls.CheckEdit(ctx, &s.call, arguments)
	if err == nil {
		return edited, nil
	}
	return nil, editProblems(err)
}

func editProblems(err error) []view.Problem {
	var refused *call.EditError
	if !errors.As(err, &refused) {
		return []view.Problem{{Text: text.ReviewEditNotChecked()}}
	}
	if refused.Cause != nil {
		return []view.Problem{{Text: text.Literal(refused.Cause.Error())}}
	}
	problems := make([]view.Problem, len(refused.Problems))
	for i, p := range refused.Problems {
		problems[i] = view.Problem{Where: p.Pointer, Text: text.Literal(p.Message)}
	}
	return problems
}

// previewEdit applies an edit to the subject and returns the changes.
func (s *subject) previewEdit(edited json.RawMessage) (*Edited, error) {
	before := s.call.Arguments
	if s.call.Submitted != nil {
		before = s.call.Submitted
	}
	diff, err := s.compareArguments(before, edited)
	if err != nil {
		return nil, fmt.Errorf("compare edited arguments of call %s: %w", s.call.ID, err)
	}
	original := bytes.Equal(before, edited)
	s.edited, s.proposing = true, s.second && !original
	s.call.Arguments = edited
	return &Edited{
		Arguments: string(edited), Fingerprint: hostile.Fingerprint(string(edited)), Diff: diff,
		Second: s.proposing, Original: original,
	}, nil
}
