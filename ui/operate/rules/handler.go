// Package rules owns the pages about operators' rules: their list, the form that checks a condition while it is typed, and their versions.
// It also owns those about the approval policies that rules ask for.
package rules

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval/rule"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// Config is required in full.
type Config struct {
	Shell    *shell.Shell
	Agents   *agent.Service
	Calls    *call.Service
	Identity *identity.Service
	Suggest  *shell.Suggester
}

// Handler shows and changes rules.
type Handler struct {
	*shell.Shell

	agents   *agent.Service
	calls    *call.Service
	identity *identity.Service
	suggest  *shell.Suggester
}

// New makes the handler.
func New(cfg Config) *Handler {
	return &Handler{Shell: cfg.Shell, agents: cfg.Agents, calls: cfg.Calls, identity: cfg.Identity, suggest: cfg.Suggest}
}

const listURL = "/rules"

// ToRules leads from the address of a form to the list of rules.
func ToRules(w http.ResponseWriter, r *http.Request) { shell.Redirect(w, r, listURL) }

// ShowRules lists the rules by name.
func (h *Handler) ShowRules(w http.ResponseWriter, r *http.Request) {
	rows, err := h.listRows(r.Context())
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	pulse, err := h.calls.ReadPulse(r.Context())
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	h.Render(w, r, http.StatusOK, ListPage(h.Page(r, view.SectionRules, text.RulesTitle(), pulse), List{Rows: rows, MayEdit: shell.MayEdit(r)}))
}

func (h *Handler) listRows(ctx context.Context) ([]Row, error) {
	versions, err := h.agents.ListRules(ctx)
	if err != nil {
		return nil, err
	}
	warnings, err := h.agents.FindRuleWarnings(ctx)
	if err != nil {
		return nil, err
	}
	misfits := map[string]int{}
	for _, w := range warnings {
		misfits[w.Rule]++
	}
	names, err := h.readNames(ctx, versions)
	if err != nil {
		return nil, err
	}
	rows := make([]Row, len(versions))
	for i := range versions {
		v := &versions[i]
		rows[i] = Row{
			Name: v.Name, URL: present.RuleURL(v.Name), Scope: describeScope(v.Spec), When: joinLines(v.Spec.When), Badges: listBadges(v.Spec),
			At: v.ChangedAt, By: present.PersonName(v.ChangedBy, names),
		}
		if v.Spec.When != "" {
			rows[i].Says = present.DescribeCondition(v.Spec.When)
		}
		if n := misfits[v.Name]; n > 0 {
			rows[i].Badges = append(rows[i].Badges, view.Badge{Word: text.RulesMisfits(n), Icon: "high", Level: view.Warn, Note: text.RulesMisfitsMeaning()})
		}
	}
	return rows, nil
}

// readNames returns the names of those who made the versions.
func (h *Handler) readNames(ctx context.Context, versions []agent.RuleVersion) (map[uuid.UUID]string, error) {
	people := make([]uuid.UUID, len(versions))
	for i := range versions {
		people[i] = versions[i].ChangedBy
	}
	return h.Names(ctx, people...)
}

// ShowRule shows a rule with its versions, also if it was deleted.
func (h *Handler) ShowRule(w http.ResponseWriter, r *http.Request) {
	versions, err := h.agents.RuleHistory(r.Context(), r.PathValue("name"))
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	names, err := h.readNames(r.Context(), versions)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	v := presentRule(versions, names, shell.MayEdit(r))
	if spec := versions[0].Spec; spec != nil {
		found, err := h.agents.CheckRule(r.Context(), *spec)
		if err != nil {
			h.Fail(w, r, err)
			return
		}
		v.addMisfits(found.Warnings(v.Name))
	}
	record, err := h.calls.ReadShadow(r.Context(), versions)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	if record != nil {
		v.Shadow = presentShadow(record)
	}
	if r.Method == http.MethodGet && r.URL.Query().Get("done") == "saved" {
		v.Notice = &view.Notice{Level: view.Good, Title: text.RulesDoneSaved(), Text: text.RulesDoneSavedNext()}
	}
	pulse, err := h.calls.ReadPulse(r.Context())
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	h.Render(w, r, http.StatusOK, RulePage(h.Page(r, view.SectionRules, text.RulesPageOf(view.Printable(v.Name)), pulse), v))
}

// DeleteRule deletes a rule. Its versions are kept.
func (h *Handler) DeleteRule(w http.ResponseWriter, r *http.Request) {
	if err := h.agents.DeleteRule(r.Context(), shell.Actor(r), r.PathValue("name")); err != nil {
		h.Fail(w, r, err)
		return
	}
	shell.RedirectDone(w, r, listURL, shell.RuleDeleted)
}

// listBadges returns the effect of a rule, and its mode if it is not enforced.
func listBadges(spec *rule.Spec) []view.Badge {
	badges := []view.Badge{effectBadge(spec.Effect)}
	switch spec.Mode {
	case rule.Shadow:
		badges = append(badges, view.Badge{Word: text.RulesModeShadow(), Icon: "hidden", Level: view.Quiet, Note: text.RulesModeHint()})
	case rule.Off:
		badges = append(badges, view.Badge{Word: text.RulesModeOff(), Icon: "cancelled", Level: view.Quiet})
	case rule.Enforce:
	}
	if spec.HighRisk {
		badges = append(badges, view.Badge{Word: text.RulesHighRiskToo(), Icon: "high", Level: view.Warn})
	}
	if spec.Grants {
		badges = append(badges, view.Badge{Word: text.GrantsOverrideShort(), Icon: "good", Level: view.Quiet})
	}
	return badges
}

func effectBadge(effect rule.Effect) view.Badge {
	switch effect {
	case rule.Allow:
		return view.Badge{Word: text.RulesEffectAllow(), Icon: "good", Level: view.Good}
	case rule.Deny:
		return view.Badge{Word: text.RulesEffectDeny(), Icon: "rejected", Level: view.Danger}
	case rule.Park:
	}
	return view.Badge{Word: text.RulesEffectPark(), Icon: "queue", Level: view.Info}
}
