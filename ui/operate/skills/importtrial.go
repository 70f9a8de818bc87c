package skills

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/runtime/trial"
	"github.com/holdpoint/holdpoint/ui/argform"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// ShowTrial shows the form that tries a read-only call.
func (h *ImportHandler) ShowTrial(w http.ResponseWriter, r *http.Request) {
	i, err := h.importOf(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	h.answerWithTrial(w, r, http.StatusOK, i, &ImportTrial{Tool: shell.Clean(r.URL.Query().Get("tool"))})
}

// answerWithTrial completes the page with the steps and tools of the skill.
func (h *ImportHandler) answerWithTrial(w http.ResponseWriter, r *http.Request, status int, i *importing, v *ImportTrial) {
	if i.offersNothing() {
		shell.Redirect(w, r, importURL(i.ID))
		return
	}
	v.Steps, v.URL, v.Skill = presentSteps(i, stepTry), importURL(i.ID), i.Spec.Name
	if i.Spec.OAuth != nil || i.Spec.Connection == agent.ConnectionPerUser {
		v.Why = text.SkillImportTryLater()
	} else {
		listing, err := h.trials.DraftTools(r.Context(), i.Spec)
		failure, failed := errors.AsType[*tool.Failure](err)
		invalid, refused := errors.AsType[*fault.InvalidError](err)
		switch {
		case failed:
			v.Failure = failure.Message
		case refused:
			v.Failure = invalid.Error()
		case err != nil:
			h.Fail(w, r, err)
			return
		}
		presentTrial(v, &listing)
	}
	pulse, err := h.calls.ReadPulse(r.Context())
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	h.Render(w, r, status, ImportTrialPage(h.Page(r, view.SectionSkills, text.SkillImportTryPage(view.Printable(i.Spec.Name)), pulse), *v))
}

// presentTrial lists the read-only tools and presents the form of the chosen tool.
func presentTrial(v *ImportTrial, listing *tool.Listing) {
	v.Tools = len(listing.Tools)
	for n := range listing.Tools {
		d := &listing.Tools[n]
		if !isReadOnly(d) {
			continue
		}
		v.Readable = append(v.Readable, view.Choice{Value: d.Name, Word: text.Literal(view.Printable(d.Name))})
		if d.Name != v.Tool {
			continue
		}
		v.About = d.Description
		if v.Editing == nil {
			v.Editing = emptyArguments(d)
		}
	}
}

// isReadOnly reports whether a tool can be tried: its method is GET or HEAD.
func isReadOnly(d *tool.Definition) bool {
	var members struct {
		Binding struct {
			Method string `json:"method"`
		} `json:"x-holdpoint-http"`
	}
	if err := json.Unmarshal(d.Raw(), &members); err != nil {
		return false
	}
	return members.Binding.Method == http.MethodGet || members.Binding.Method == http.MethodHead
}

// emptyArguments returns an empty form of a tool's arguments, or an editor if they do not fit a form.
func emptyArguments(d *tool.Definition) *view.Editing {
	form, err := argform.Read(d.InputSchema, []byte("{}"))
	if err != nil {
		return &view.Editing{JSON: "{}"}
	}
	return present.EditForm(form)
}

// TryImport tries the call.
func (h *ImportHandler) TryImport(w http.ResponseWriter, r *http.Request) {
	i, err := h.importOf(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	if i.offersNothing() {
		shell.Redirect(w, r, importURL(i.ID))
		return
	}
	v := &ImportTrial{Tool: r.PostFormValue("tool")}
	arguments, editing := h.trialArguments(r, i, v.Tool)
	v.Editing = editing
	if editing != nil && len(editing.Problems) > 0 {
		h.answerWithTrial(w, r, http.StatusUnprocessableEntity, i, v)
		return
	}
	began := h.Now()
	tried, err := h.trials.TryDraft(r.Context(), shell.Actor(r), i.Spec, trial.Request{Tool: v.Tool, Arguments: arguments, Person: i.person})
	invalid, refused := errors.AsType[*fault.InvalidError](err)
	failure, failed := errors.AsType[*tool.Failure](err)
	switch {
	case refused:
		if v.Editing == nil {
			v.Editing = &view.Editing{JSON: shell.Clean(string(arguments))}
		}
		for _, p := range invalid.Fields {
			v.Editing.Problems = append(v.Editing.Problems, view.Problem{Where: p.Name, Text: text.Literal(p.Expected)})
		}
		h.answerWithTrial(w, r, http.StatusUnprocessableEntity, i, v)
		return
	case failed:
		v.Notice = &view.Notice{Level: view.Danger, Title: text.SkillImportNothingSent(), Text: text.Literal(view.Printable(failure.Message))}
	case err != nil:
		h.Fail(w, r, err)
		return
	default:
		presentTried(v, tried, h.Now().Sub(began))
	}
	h.answerWithTrial(w, r, http.StatusOK, i, v)
}

// trialArguments returns the submitted arguments and the form to show again.
func (h *ImportHandler) trialArguments(r *http.Request, i *importing, name string) (json.RawMessage, *view.Editing) {
	if r.PostForm.Has("json") {
		source := r.PostFormValue("json")
		return json.RawMessage(source), &view.Editing{JSON: shell.Clean(source)}
	}
	listing, err := h.trials.DraftTools(r.Context(), i.Spec)
	if err != nil {
		return json.RawMessage("{}"), nil // the trial says why
	}
	for n := range listing.Tools {
		d := &listing.Tools[n]
		if d.Name != name {
			continue
		}
		form, err := argform.Read(d.InputSchema, []byte("{}"))
		if err != nil {
			break
		}
		raw, wrong := form.Bytes(r.PostForm)
		editing := present.EditForm(form.With(r.PostForm))
		for _, p := range wrong {
			editing.Problems = append(editing.Problems, view.Problem{Where: p.Field, Text: p.Expected})
		}
		return raw, editing
	}
	return json.RawMessage("{}"), nil
}

// presentTried shows the request and its answer.
func presentTried(v *ImportTrial, tried *trial.Response, took time.Duration) {
	limits := hostile.Folded()
	v.Request = &view.Request{Method: tried.Request.Method, URL: hostile.Fold(tried.Request.URL, limits), Sent: true}
	for _, h := range tried.Request.Headers {
		v.Request.Headers = append(v.Request.Headers, view.RequestHeader{Name: h.Name, Value: hostile.Fold(h.Value, limits), Secret: h.Secret})
	}
	exchange := tried.Result.Exchange
	if f := tried.Failure; f != nil {
		exchange = f.Exchange
		v.Level, v.Words = view.Danger, f.Message
	} else {
		if v.Level = view.Good; tried.Result.IsError {
			v.Level = view.Danger
		}
		if result, err := hostile.ReadResult(tried.Result.Raw, limits); err == nil {
			v.Result = &result
		}
	}
	if exchange.Status != 0 {
		v.Words = strings.TrimSpace("HTTP " + present.HTTPStatusWords(exchange.Status) + ". " + v.Words)
	}
	v.Took = text.SkillImportTook(present.FormatShortDuration(took))
	for _, s := range exchange.Steps {
		v.Timings = append(v.Timings, ProbeStep{Name: s.Name, Took: present.FormatShortDuration(s.Took), Detail: s.Detail})
	}
}
