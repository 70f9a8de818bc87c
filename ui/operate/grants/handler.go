// Package grants owns the pages about grants: their list, the form that makes one from a call, and the page of one.
package grants

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/approval/grant"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/secretfield"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/call/history"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// Config is required in full.
type Config struct {
	Shell   *shell.Shell
	Agents  *agent.Service
	Calls   *call.Service
	History *history.Service
}

// Handler shows, makes and revokes grants.
type Handler struct {
	*shell.Shell

	agents  *agent.Service
	calls   *call.Service
	history *history.Service
}

// New makes the handler.
func New(cfg Config) *Handler { return &Handler{cfg.Shell, cfg.Agents, cfg.Calls, cfg.History} }

const listURL = "/grants"

// ExplainError explains why a grant cannot be made or changed.
func ExplainError(_ *http.Request, err error) (status int, n view.Notice, ok bool) {
	switch {
	case errors.Is(err, call.ErrNoGrants):
		return http.StatusConflict, view.Notice{Level: view.Warn, Title: text.GrantsNone(), Text: text.GrantsNoneHelp()}, true
	case errors.Is(err, approval.ErrSelfApproval):
		return http.StatusForbidden, view.Notice{Level: view.Warn, Title: text.GrantsNone(), Text: text.ReviewProblemOwnCall()}, true
	case errors.Is(err, approval.ErrInvitedApproval):
		return http.StatusForbidden, view.Notice{Level: view.Warn, Title: text.GrantsNone(), Text: text.ReviewProblemInvited()}, true
	case errors.Is(err, call.ErrOwnGrant):
		return http.StatusForbidden, view.Notice{Level: view.Warn, Title: text.GrantsOwn()}, true
	case errors.Is(err, agent.ErrGrantOver), errors.Is(err, agent.ErrNoSecond):
		return http.StatusConflict, view.Notice{Level: view.Warn, Title: text.GrantsOver()}, true
	}
	return 0, n, false
}

// ShowGrants lists the grants that count, or all.
func (h *Handler) ShowGrants(w http.ResponseWriter, r *http.Request) {
	access, _ := login.Access(r.Context())
	l := List{All: r.URL.Query().Get("all") != "", Suggests: access.Has(identity.Operator)}
	grants, err := h.agents.ListGrants(r.Context(), !l.All)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	names, err := h.readNames(r.Context(), grants...)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	for i := range grants {
		g, row := &grants[i], presentRow(&grants[i], names)
		l.Rows = append(l.Rows, row)
		if g.State == agent.GrantActive && (g.Unused || g.IsWide()) {
			l.Review = append(l.Review, row)
		}
	}
	pulse, err := h.calls.ReadPulse(r.Context())
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	h.Render(w, r, http.StatusOK, ListPage(h.Page(r, view.SectionGrants, text.GrantsTitle(), pulse), l))
}

// readNames returns the names of the people of grants.
func (h *Handler) readNames(ctx context.Context, grants ...agent.Grant) (map[uuid.UUID]string, error) {
	var people []uuid.UUID
	for i := range grants {
		people = append(people, grants[i].PrincipalID, grants[i].GrantedBy, grants[i].SecondBy, grants[i].RevokedBy)
	}
	return h.Names(ctx, people...)
}

func presentRow(g *agent.Grant, names map[uuid.UUID]string) Row {
	row := Row{
		URL: present.GrantURL(g.ID), Agent: g.Agent, Person: present.PersonName(g.PrincipalID, names), Tool: g.Skill + ": " + g.Tool, Badges: []view.Badge{stateBadge(g)},
		By: present.PersonName(g.GrantedBy, names), EndsAt: g.EndsAt, UsedAt: g.UsedAt, Revoke: g.State == agent.GrantActive || g.State == agent.GrantWaiting || g.State == agent.GrantVoid,
	}
	if g.IsWide() {
		row.Badges = append(row.Badges, view.Badge{Word: text.GrantsWide(), Icon: "high", Level: view.Warn, Note: text.GrantsWideMeaning()})
	}
	if g.Unused && g.State == agent.GrantActive {
		row.Badges = append(row.Badges, view.Badge{Word: text.GrantsUnused(), Icon: "stale", Level: view.Quiet, Note: text.GrantsUnusedMeaning()})
	}
	return row
}

func stateBadge(g *agent.Grant) view.Badge {
	switch g.State {
	case agent.GrantActive:
		return view.Badge{Word: text.GrantsActive(), Icon: "good", Level: view.Good}
	case agent.GrantWaiting:
		return view.Badge{Word: text.GrantsWaiting(), Icon: "queue", Level: view.Info}
	case agent.GrantUsedUp:
		return view.Badge{Word: text.GrantsUsedUp(), Icon: "expired", Level: view.Quiet}
	case agent.GrantEnded:
		return view.Badge{Word: text.GrantsEnded(), Icon: "expired", Level: view.Quiet}
	case agent.GrantRevoked:
		return view.Badge{Word: text.GrantsRevoked(), Icon: "rejected", Level: view.Danger}
	case agent.GrantVoid:
	}
	return view.Badge{Word: text.GrantsVoid(), Icon: "failed", Level: view.Warn, Note: text.GrantsVoidMeaning()}
}

func grantID(r *http.Request) (uuid.UUID, error) {
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		return id, agent.ErrNotFound
	}
	return id, nil
}

// ShowGrant shows a grant.
func (h *Handler) ShowGrant(w http.ResponseWriter, r *http.Request) {
	id, err := grantID(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	g, err := h.agents.GetGrant(r.Context(), id)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	v, err := h.presentGrant(r, &g)
	if err == nil {
		err = h.addCalls(r, &g, &v)
	}
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	pulse, err := h.calls.ReadPulse(r.Context())
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	h.Render(w, r, http.StatusOK, GrantPage(h.Page(r, view.SectionGrants, text.GrantsOne(), pulse), v))
}

func (h *Handler) presentGrant(r *http.Request, g *agent.Grant) (Grant, error) {
	names, err := h.readNames(r.Context(), *g)
	if err != nil {
		return Grant{}, err
	}
	secrets, err := h.calls.ReadSecrets(r.Context(), call.Call{SkillID: g.SkillID, Tool: g.Tool, Pin: g.Pin})
	if err != nil {
		return Grant{}, err
	}
	access, _ := login.Access(r.Context())
	v := Grant{Row: presentRow(g, names), ID: g.ID.String(), Confirm: g.State == agent.GrantWaiting && g.GrantedBy != access.Person.ID}
	for i := range g.Arguments {
		v.Arguments = append(v.Arguments, presentArgument(&g.Arguments[i], secrets[uuid.Nil]))
	}
	from := view.Fact{Name: text.GrantsFromCall(), Text: text.Literal(present.ShortID(g.CallID)), URL: present.CallURL(g.CallID)}
	if g.PlanID != uuid.Nil {
		from = view.Fact{Name: text.PlansOne(), Text: text.Literal(present.ShortID(g.PlanID)), URL: present.PlanURL(g.PlanID)}
	}
	v.Facts = []view.Fact{
		from,
		{Name: text.GrantsBy(), Text: text.Literal(v.By)},
		{Name: text.GrantsAt(), Time: &g.GrantedAt},
		{Name: text.GrantsEnds(), Time: &g.EndsAt},
	}
	if g.Uses != nil {
		v.Facts = append(v.Facts, view.Fact{Name: text.GrantsUses(), Text: text.GrantsUsesOf(int(g.Taken), int(*g.Uses))})
	}
	v.Facts = append(v.Facts, view.Fact{Name: text.GrantsLastUse(), Time: g.UsedAt, Text: text.GrantsNever()})
	if g.SecondAt != nil {
		v.Facts = append(v.Facts, view.Fact{Name: text.GrantsSecond(), Text: text.Literal(present.PersonName(g.SecondBy, names))}, view.Fact{Name: text.GrantsSecondAt(), Time: g.SecondAt})
	}
	if g.RevokedAt != nil {
		v.Facts = append(v.Facts, view.Fact{Name: text.GrantsRevokedBy(), Text: text.Literal(present.PersonName(g.RevokedBy, names))}, view.Fact{Name: text.GrantsRevokedAt(), Time: g.RevokedAt})
	}
	if r.Method == http.MethodGet && r.URL.Query().Get("done") == "granted" {
		v.Notice = &view.Notice{Level: view.Good, Title: text.GrantsDone(), Text: text.GrantsDoneNext(), URL: present.CallURL(g.CallID), Word: text.GrantsToCall()}
		if g.State == agent.GrantWaiting {
			v.Notice = &view.Notice{Level: view.Warn, Title: text.GrantsDoneWaiting(), Text: text.GrantsSecondMeaning(), URL: present.CallURL(g.CallID), Word: text.GrantsToCall()}
		}
	}
	return v, nil
}

// callPage is how many calls the page of a grant shows.
const callPage = 20

// addCalls adds a page of the calls that the grant let pass.
func (h *Handler) addCalls(r *http.Request, g *agent.Grant, v *Grant) error {
	before, err := uuid.Parse(r.URL.Query().Get("before"))
	if err != nil {
		before = uuid.Nil
	}
	found, err := h.history.Search(r.Context(), history.Filter{Agents: []uuid.UUID{g.AgentID}, Grant: g.ID, From: g.GrantedAt, Before: before, Limit: callPage})
	if err != nil {
		return err
	}
	for i := range found.Calls {
		c := &found.Calls[i]
		v.Calls = append(v.Calls, Match{ID: present.ShortID(c.ID), URL: present.CallURL(c.ID), At: c.CreatedAt, Badge: present.StatusBadge(c.Status)})
	}
	if v.Newest = before == uuid.Nil; found.Next != uuid.Nil {
		v.Next = v.URL + "?before=" + found.Next.String()
	}
	return nil
}

// argumentName returns the name of an argument for people.
func argumentName(pointer string) string {
	names := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for i := range names {
		names[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(names[i])
	}
	return strings.Join(names, ".")
}

func presentArgument(m *grant.Matcher, secrets *secretfield.Rules) Argument {
	a := Argument{Name: argumentName(m.Argument)}
	var values []string
	hidden := m.HasSecret(secrets)
	for _, value := range m.Values {
		values = append(values, string(value))
	}
	if len(values) > 0 && !hidden {
		shown := hostile.ShowDocument([]byte(strings.Join(values, "\n")), hostile.Folded())
		a.Value = &shown
	}
	a.Rule = kindWords(m.Kind)
	switch {
	case hidden:
		a.Rule = text.Join(" ", a.Rule, text.GrantsHidden())
	case m.Kind == grant.Range && m.Min == "":
		a.Rule = text.GrantsAtMost(string(m.Max))
	case m.Kind == grant.Range && m.Max == "":
		a.Rule = text.GrantsAtLeast(string(m.Min))
	case m.Kind == grant.Range:
		a.Rule = text.GrantsBetween(string(m.Min), string(m.Max))
	}
	return a
}

func kindWords(kind grant.Kind) text.Message {
	switch kind {
	case grant.Exact:
		return text.GrantsKindExact()
	case grant.OneOf:
		return text.GrantsKindOneOf()
	case grant.Domain:
		return text.GrantsKindDomain()
	case grant.PathBelow:
		return text.GrantsKindPathBelow()
	case grant.Prefix:
		return text.GrantsKindPrefix()
	case grant.Range:
		return text.GrantsKindRange()
	case grant.Anything:
	}
	return text.GrantsKindAnything()
}

// RevokeGrant revokes a grant.
func (h *Handler) RevokeGrant(w http.ResponseWriter, r *http.Request) {
	id, err := grantID(r)
	if err == nil {
		_, err = h.agents.RevokeGrant(r.Context(), shell.Actor(r), id)
	}
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	shell.RedirectDone(w, r, listURL, shell.GrantRevoked)
}

// ConfirmGrant confirms a grant that needs a second person.
func (h *Handler) ConfirmGrant(w http.ResponseWriter, r *http.Request) {
	id, err := grantID(r)
	if err == nil {
		_, err = h.calls.ConfirmGrant(r.Context(), shell.Actor(r).ID, id)
	}
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	shell.RedirectDone(w, r, present.GrantURL(id), shell.GrantConfirmed)
}
