// Package search owns the command palette: the search for calls, tools, skills, agents, rules, policies, people, pages and actions.
package search

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/call/history"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

const (
	maxText   = 100 // characters of a search
	maxOfKind = 8   // results of a kind
	// maxTools bounds the tools that are read, because those of deleted skills are left out.
	maxTools = 10 * maxOfKind
)

// Config is required in full.
type Config struct {
	Shell     *shell.Shell
	Calls     *call.Service
	History   *history.Service
	Agents    *agent.Service
	Discovery *tool.Discovery
	Identity  *identity.Service
}

// Handler finds things by name.
type Handler struct {
	*shell.Shell

	calls     *call.Service
	history   *history.Service
	agents    *agent.Service
	discovery *tool.Discovery
	identity  *identity.Service
}

// New makes the handler.
func New(cfg Config) *Handler {
	return &Handler{
		Shell: cfg.Shell, calls: cfg.Calls, history: cfg.History, agents: cfg.Agents, discovery: cfg.Discovery, identity: cfg.Identity,
	}
}

// Search shows the results for a text: a page, or only the results for the dialog. The dialog also gets the actions that need its script.
func (h *Handler) Search(w http.ResponseWriter, r *http.Request) {
	access, _ := login.Access(r.Context())
	found := Results{Text: strings.TrimSpace(shell.Clean(r.URL.Query().Get("q"))), Dialog: shell.PartOnly(r)}
	if typed := []rune(found.Text); len(typed) > maxText {
		found.Text = string(typed[:maxText])
	}
	if found.Text != "" {
		if err := h.find(r.Context(), access, &found); err != nil {
			h.Fail(w, r, err)
			return
		}
	}
	person := view.Person{Operator: access.Has(identity.Operator)}
	found.List = append(found.List, findPages(r.Context(), person, found.Text)...)
	shown, err := uuid.Parse(r.URL.Query().Get("call"))
	if err != nil {
		shown = uuid.Nil
	}
	found.List = append(found.List, findActions(r.Context(), found, shown)...)
	if found.Dialog {
		h.Render(w, r, http.StatusOK, List(found))
		return
	}
	pulse, err := h.calls.ReadPulse(r.Context())
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	h.Render(w, r, http.StatusOK, Page(h.Page(r, view.SectionSearch, text.PaletteTitle(), pulse), found))
}

// find adds the calls, tools, skills, agents, rules, policies and, for operators, people that a text finds.
func (h *Handler) find(ctx context.Context, access identity.Access, found *Results) error {
	calls, isID, err := h.history.FindByID(ctx, found.Text, maxOfKind)
	if err != nil {
		return err
	}
	found.NoCall = isID && len(calls) == 0
	for i := range calls {
		c := &calls[i]
		found.add(text.PaletteCall(), present.CallURL(c.ID), c.Skill+": "+c.Tool, c.ID.String())
	}
	tools, err := h.discovery.FindTools(ctx, found.Text, maxTools)
	if err != nil {
		return err
	}
	left := maxOfKind
	for _, t := range tools {
		skill, _, err := h.agents.Skill(ctx, t.SkillID)
		switch {
		case left == 0 || errors.Is(err, agent.ErrNotFound):
			continue
		case err != nil:
			return err
		}
		left--
		found.add(text.PaletteTool(), present.ToolURL(t.SkillID, t.Name), t.Name, skill.Name)
	}
	skills, err := h.agents.FindSkills(ctx, found.Text, maxOfKind)
	if err != nil {
		return err
	}
	for _, s := range skills {
		found.add(text.PaletteSkill(), present.SkillURL(s.ID), s.Name, "")
	}
	agents, err := h.agents.FindAgents(ctx, found.Text, maxOfKind)
	if err != nil {
		return err
	}
	for _, a := range agents {
		found.add(text.PaletteAgent(), present.AgentURL(a.ID), a.Name, "")
	}
	book, err := h.agents.Rules(ctx)
	if err != nil {
		return err
	}
	left = maxOfKind
	for i := range book.Rules {
		if name := book.Rules[i].Name; left > 0 && containsText(name, found.Text) {
			left--
			found.add(text.RulesRule(), present.RuleURL(name), name, "")
		}
	}
	left = maxOfKind
	for _, name := range slices.Sorted(maps.Keys(book.Policies)) {
		if left > 0 && containsText(name, found.Text) {
			left--
			found.add(text.PoliciesPolicy(), present.PolicyURL(name), name, "")
		}
	}
	if !access.Has(identity.Operator) {
		return nil
	}
	people, _, err := h.identity.Members(ctx, identity.MemberFilter{Text: found.Text, Limit: maxOfKind})
	for i := range people {
		found.add(text.PalettePerson(), present.MemberURL(people[i].ID), people[i].Name, people[i].Email)
	}
	return err
}

// findPages returns the pages of a person whose label contains a text in their language.
func findPages(ctx context.Context, person view.Person, typed string) []Result {
	var list []Result
	for _, l := range view.ListPages(person) {
		if containsText(l.Word.In(ctx), typed) {
			list = append(list, Result{Kind: text.PalettePage(), URL: l.URL, Word: l.Word})
		}
	}
	return list[:min(len(list), maxPages)]
}

const maxPages = 20 // an empty search lists all pages

// findActions returns the actions whose label contains the text. Without its script, the page has only those that are pages.
func findActions(ctx context.Context, found Results, shown uuid.UUID) []Result {
	all := []Result{{URL: "/", Do: "next", Word: text.PaletteNextCall()}}
	if found.Dialog {
		if shown != uuid.Nil {
			all = append(all, Result{URL: present.CallURL(shown), Do: "copy", Copy: shown.String(), Word: text.PaletteCopyID(shown.String())})
		}
		all = append(all, Result{URL: "/", Do: "pause", Word: text.PalettePause()})
	}
	all = append(all, Result{URL: "/settings#look", Do: "theme", Word: text.PaletteTheme()})
	var list []Result
	for _, a := range all {
		if a.Kind = text.PaletteAction(); containsText(a.Word.In(ctx), found.Text) {
			list = append(list, a)
		}
	}
	return list
}

func containsText(label, typed string) bool {
	return strings.Contains(strings.ToLower(label), strings.ToLower(typed))
}
