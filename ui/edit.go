package ui

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

// edit opens the editor on a call's arguments, or shows what those that were sent would change. It decides nothing. The
// secrets among the arguments are in the editor, which is recorded.
func (u *UI) edit(w http.ResponseWriter, r *http.Request) {
	subject, ok := u.decidable(w, r)
	if !ok {
		return
	}
	how := shown{draft: r.PostFormValue(reasonField)}
	form, formErr := subject.form()
	as := r.PostFormValue(editAsField)
	switch sent := r.PostFormValue("sent"); {
	case sent == "json":
		how.editing, how.edited = u.readJSON(r.Context(), subject, r.PostFormValue(editJSONField))
	case sent == "form" && formErr == nil:
		how.editing, how.edited = u.readForm(r, subject, form)
	case as == asOriginal && subject.editWaits():
		if err := u.opened(r, subject, subject.call.Submitted); err != nil {
			u.fail(w, r, err)
			return
		}
		how.edited = subject.call.Submitted
	default:
		if err := u.opened(r, subject, subject.call.Arguments); err != nil {
			u.fail(w, r, err)
			return
		}
		if formErr != nil || as == "json" {
			how.editing = &view.Editing{JSON: argform.Source(subject.call.Arguments), Form: formErr == nil}
		} else {
			how.editing = presentForm(form)
		}
	}
	status := http.StatusOK
	if how.editing != nil && len(how.editing.Problems) > 0 {
		status = http.StatusUnprocessableEntity
	}
	u.answerWithCall(w, r, status, how)
}

// decidable is the call that a form is about, if this person may decide about it as it is on their screen. Else it answers.
func (u *UI) decidable(w http.ResponseWriter, r *http.Request) (*subject, bool) {
	id, err := callID(r)
	if err != nil {
		u.fail(w, r, err)
		return nil, false
	}
	access, _ := login.Access(r.Context())
	subject, err := u.subject(r.Context(), access, id)
	if err != nil {
		u.fail(w, r, err)
		return nil, false
	}
	switch why, ok := subject.mayDecide(access); {
	case subject.approval == nil:
		u.fail(w, r, approval.ErrNotFound)
	case subject.approval.Status != approval.Pending:
		u.notDecided(w, r, &approval.ConflictError{Approval: *subject.approval})
	case subject.approval.Digest.String() != r.PostFormValue("digest"):
		u.notDecided(w, r, approval.ErrDigestMismatch)
	case !ok:
		u.answerWithCall(w, r, http.StatusForbidden, shown{notice: &view.Notice{Level: view.Warn, Title: "Not for you to decide.", Text: why}})
	default:
		return subject, true
	}
	return nil, false
}

// carryEdit takes the edited arguments that a form carries from step to step, checked anew. Valid: they can be sent, or
// there are none; else how says what is wrong. Not ok: it answered.
func (u *UI) carryEdit(w http.ResponseWriter, r *http.Request, how *shown) (valid, ok bool) {
	text := r.PostFormValue(editedField)
	if text == "" {
		return true, true
	}
	subject, ok := u.decidable(w, r)
	if !ok {
		return false, false
	}
	edited, problems := u.checked(r.Context(), subject, []byte(text))
	if how.edited = edited; len(problems) > 0 {
		how.notice = &view.Notice{
			Level: view.Danger, Title: "Your edit cannot be sent any more.", Draft: clean(text),
			Text: "The tool does not take it. Below is what the agent asked for.",
		}
	}
	return len(problems) == 0, true
}

// opened records that an editor shows secrets.
func (u *UI) opened(r *http.Request, s *subject, arguments []byte) error {
	hidden := s.secrets().Count(arguments)
	if hidden == 0 {
		return nil
	}
	access, _ := login.Access(r.Context())
	return u.cfg.Calls.Revealed(r.Context(), s.call.ID, access.Person.ID, hidden, "editor")
}

func (s *subject) form() (argform.Form, error) {
	if s.definition == nil {
		return argform.Form{}, argform.ErrNotFlat
	}
	return argform.Read(s.definition.InputSchema, s.call.Arguments)
}

// readJSON takes the text of the JSON editor: what it would send, or the editor again with what is wrong.
func (u *UI) readJSON(ctx context.Context, s *subject, text string) (*view.Editing, json.RawMessage) {
	edited, problems := u.checked(ctx, s, []byte(text))
	if len(problems) > 0 {
		_, err := s.form()
		return &view.Editing{JSON: clean(text), Form: err == nil, Problems: problems}, nil
	}
	return nil, s.unlessSame(edited)
}

func (u *UI) readForm(r *http.Request, s *subject, form argform.Form) (*view.Editing, json.RawMessage) {
	raw, wrong := form.Bytes(r.PostForm)
	problems := make([]view.Problem, 0, len(wrong))
	for _, p := range wrong {
		problems = append(problems, view.Problem{Where: p.Field, Text: p.Expected})
	}
	var edited json.RawMessage
	if len(problems) == 0 {
		edited, problems = u.checked(r.Context(), s, raw)
	}
	if len(problems) > 0 {
		again := presentForm(form.With(r.PostForm))
		again.Problems = problems
		return again, nil
	}
	return nil, s.unlessSame(edited)
}

// unlessSame are edited arguments, or, where nothing was edited, those that are stored: escapes that stood for characters
// nobody would see in the editor are no edit.
func (s *subject) unlessSame(edited json.RawMessage) json.RawMessage {
	if source, err := call.CleanArguments([]byte(argform.Source(s.call.Arguments))); err == nil && bytes.Equal(source, edited) {
		return s.call.Arguments
	}
	return edited
}

// checked are arguments as they would be sent, or what is wrong with them.
func (u *UI) checked(ctx context.Context, s *subject, arguments []byte) (json.RawMessage, []view.Problem) {
	edited, err := u.cfg.Calls.CheckEdit(ctx, &s.call, arguments)
	if err == nil {
		return edited, nil
	}
	return nil, editProblems(err)
}

func editProblems(err error) []view.Problem {
	var refused *call.EditError
	if !errors.As(err, &refused) {
		return []view.Problem{{Text: "They could not be checked. Try again."}}
	}
	if refused.Cause != nil {
		return []view.Problem{{Text: refused.Cause.Error()}}
	}
	problems := make([]view.Problem, len(refused.Problems))
	for i, p := range refused.Problems {
		problems[i] = view.Problem{Where: p.Pointer, Text: p.Message}
	}
	return problems
}

func presentForm(f argform.Form) *view.Editing {
	e := &view.Editing{Form: true, Fields: make([]view.EditField, len(f.Fields))}
	for i := range f.Fields {
		field := &f.Fields[i]
		e.Fields[i] = view.EditField{
			ID: f.ValueName(i), SentID: f.SentName(i), Name: field.Name, Kind: string(field.Kind), Value: field.Value,
			Required: field.Required, Present: field.Present, Title: field.Title, Description: field.Description,
		}
		for _, o := range field.Options {
			e.Fields[i].Options = append(e.Fields[i].Options, view.Option{Value: o, Text: o, Chosen: o == field.Value})
		}
	}
	return e
}

// preview makes the subject what the edit would make of it, and says what that changes.
func (s *subject) preview(edited json.RawMessage) (*view.Edited, error) {
	before := s.call.Arguments
	if s.call.Submitted != nil {
		before = s.call.Submitted
	}
	diff, err := s.compare(before, edited)
	if err != nil {
		return nil, fmt.Errorf("compare edited arguments of call %s: %w", s.call.ID, err)
	}
	original := bytes.Equal(before, edited)
	s.edited, s.proposing = true, s.second && !original
	s.call.Arguments, s.withheld = edited, 0 // whoever wrote them knows all of it
	return &view.Edited{
		Arguments: string(edited), Fingerprint: hostile.Fingerprint(string(edited)), Diff: diff,
		Second: s.proposing, Original: original,
	}, nil
}
