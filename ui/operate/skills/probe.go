package skills

import (
	"context"
	"errors"
	"iter"
	"net/http"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/operate/connections"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// ProbeSkill tests a new connection to a skill's server. The page is sent step by step while the test runs, and needs no script.
func (h *Handler) ProbeSkill(w http.ResponseWriter, r *http.Request) {
	skill, err := h.skillOf(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	access, _ := login.Access(r.Context())
	asks := false
	page := h.Page(r, view.SectionSkills, text.SkillProbePage(view.Printable(skill.Name)), approval.Pulse{Now: h.Now()})
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(http.StatusOK)
	err = ProbePage(page, Probe{
		URL: present.SkillURL(skill.ID), Skill: skill.Name, Steps: h.runProbe(r.Context(), skill.ID, access.Person.ID, &asks), Connect: func() []connections.Connection { return h.readProbedLink(r, asks) },
	}).Render(r.Context(), flushing{w, http.NewResponseController(w)})
	if err != nil && r.Context().Err() == nil {
		h.Log.Warn("writing a page", "path", r.URL.Path, "error", err)
	}
}

// readProbedLink returns the connection that the server of a tested skill asks for, so that the person can connect it at once.
func (h *Handler) readProbedLink(r *http.Request, asks bool) []connections.Connection {
	if !asks {
		return nil
	}
	own, err := h.connections.LinkOfSkill(r)
	var cards []connections.Connection
	if err == nil {
		cards, err = h.connections.Cards(r.Context(), []*connections.Link{own}, own.Skill.ID, h.Now())
	}
	if err != nil {
		h.Log.Warn("reading the connection of a tested skill", "path", r.URL.Path, "error", err)
		return nil
	}
	return cards
}

// runProbe runs the steps and yields each. It sets asks if the server wants a connection first.
func (h *Handler) runProbe(ctx context.Context, skillID, person uuid.UUID, asks *bool) iter.Seq[ProbeStep] {
	return func(yield func(ProbeStep) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		show := func(s tool.Step) {
			if ctx.Err() != nil {
				return // the client is gone
			}
			step := ProbeStep{Name: s.Name, Detail: s.Detail, Took: present.FormatShortDuration(s.Took)}
			if s.Err != nil {
				step.Error = s.Err.Error()
				failure, ok := errors.AsType[*tool.Failure](s.Err)
				*asks = *asks || ok && (failure.Connect != nil || failure.Unauthorized)
			}
			if !yield(step) {
				cancel()
			}
		}
		if err := h.trials.Probe(ctx, skillID, person, show); err != nil {
			show(tool.Step{Name: "probe", Err: err})
		}
	}
}

// flushing sends the written part of a page when the page asks for it.
type flushing struct {
	http.ResponseWriter
	controller *http.ResponseController
}

// Flush sends the written part.
func (f flushing) Flush() { _ = f.controller.Flush() } // the client may be gone
