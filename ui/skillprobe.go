package ui

import (
	"context"
	"iter"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/view"
)

// probeSkill connects to a skill's server afresh. The page comes step by step, as the steps are taken: it is sent
// while it is made, and needs no script.
func (u *UI) probeSkill(w http.ResponseWriter, r *http.Request) {
	skill, err := u.skillOf(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	access, _ := login.Access(r.Context())
	page := u.page(r, view.SectionSkills, "Test of "+printable(skill.Name), approval.Pulse{Now: u.cfg.Now()})
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(http.StatusOK)
	err = view.ProbePage(page, view.Probe{
		URL: skillURL(skill.ID), Skill: skill.Name, Steps: u.probe(r.Context(), skill.ID, access.Person.ID),
	}).Render(r.Context(), flushing{w, http.NewResponseController(w)})
	if err != nil && r.Context().Err() == nil {
		u.log.Warn("writing a page", "path", r.URL.Path, "error", err)
	}
}

// probe takes the steps as they are asked for.
func (u *UI) probe(ctx context.Context, skillID, person uuid.UUID) iter.Seq[view.ProbeStep] {
	return func(yield func(view.ProbeStep) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		show := func(s tool.Step) {
			if ctx.Err() != nil {
				return // nobody looks on
			}
			step := view.ProbeStep{Name: s.Name, Detail: s.Detail, Took: s.Took.Round(10 * time.Microsecond).String()}
			if s.Err != nil {
				step.Error = s.Err.Error()
			}
			if !yield(step) {
				cancel()
			}
		}
		if err := u.cfg.Agents.Probe(ctx, skillID, person, show); err != nil {
			show(tool.Step{Name: "probe", Err: err})
		}
	}
}

// flushing sends what was written so far when a page asks for it.
type flushing struct {
	http.ResponseWriter
	controller *http.ResponseController
}

// Flush sends what was written.
func (f flushing) Flush() { _ = f.controller.Flush() } // the client may be gone
