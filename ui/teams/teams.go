// Package teams owns the page of teams: their members at this moment, absences and substitutes, delegations, and on-call calendars.
package teams

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/oncall"
	"github.com/holdpoint/holdpoint/internal/query"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

const teamsURL = "/teams"

// Config is required in full.
type Config struct {
	Shell    *shell.Shell
	Calls    *call.Service
	Identity *identity.Service
	OnCall   *oncall.Service
}

// Handler shows teams, and changes absences, delegations and calendars.
type Handler struct {
	*shell.Shell

	calls    *call.Service
	identity *identity.Service
	oncall   *oncall.Service
}

// New makes the handler.
func New(cfg Config) *Handler {
	return &Handler{Shell: cfg.Shell, calls: cfg.Calls, identity: cfg.Identity, oncall: cfg.OnCall}
}

// ToTeams leads from the address of a form to the page.
func ToTeams(w http.ResponseWriter, r *http.Request) { shell.Redirect(w, r, teamsURL) }

// ShowTeams shows the page.
func (h *Handler) ShowTeams(w http.ResponseWriter, r *http.Request) {
	h.answer(w, r, http.StatusOK, Teams{})
}

// refuse shows the page again with what is wrong with a form. Other errors fail.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, form Form, err error) {
	var wrong *fault.InvalidError
	switch {
	case errors.As(err, &wrong):
		form.Field, form.Error = wrong.Fields[0].Name, text.Fault(wrong.Fields[0].Expected)
		h.answer(w, r, http.StatusUnprocessableEntity, Teams{Form: form})
	case errors.Is(err, identity.ErrNotMember), errors.Is(err, identity.ErrSelfDelegation):
		form.Field, form.Error = "team", text.TeamNotYours()
		h.answer(w, r, http.StatusUnprocessableEntity, Teams{Form: form})
	case errors.Is(err, fault.ErrNotFound):
		h.answer(w, r, http.StatusNotFound, Teams{Notice: &view.Notice{Level: view.Warn, Title: text.TeamGone(), Text: text.TeamGoneHere()}})
	default:
		h.Fail(w, r, err)
	}
}

func (h *Handler) answer(w http.ResponseWriter, r *http.Request, status int, page Teams) {
	pulse, err := h.calls.ReadPulse(r.Context())
	if err == nil {
		err = h.fill(r, &page)
	}
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	h.Render(w, r, status, TeamsPage(h.Page(r, view.SectionSettings, text.TeamTitle(), pulse), page))
}

// fill reads what the page shows.
func (h *Handler) fill(r *http.Request, page *Teams) error {
	ctx := r.Context()
	access, _ := login.Access(ctx)
	page.Operates = access.Has(identity.Operator)
	members, err := h.identity.Roster(ctx)
	if err != nil {
		return err
	}
	shifts, err := h.identity.CurrentShifts(ctx)
	if err != nil {
		return err
	}
	schedules, err := h.oncall.List(ctx)
	if err != nil {
		return err
	}
	absences, err := h.identity.Absences(ctx, uuid.Nil)
	if err != nil {
		return err
	}
	delegations, err := h.identity.Delegations(ctx)
	if err != nil {
		return err
	}
	reviewers, err := h.identity.Reviewers(ctx)
	if err != nil {
		return err
	}
	names, err := h.Names(ctx, listPeople(members, shifts, schedules, absences, delegations, reviewers)...)
	if err != nil {
		return err
	}
	self := access.Person.ID
	for _, e := range reviewers {
		option := view.Option{Value: e.Person.String(), Text: text.Literal(view.Printable(present.PersonName(e.Person, names)))}
		if e.Person != self || page.Operates {
			page.Reviewers = append(page.Reviewers, option)
		}
	}
	slices.SortFunc(page.Reviewers, func(a, b view.Option) int { return cmp.Compare(a.Text.In(ctx), b.Text.In(ctx)) })
	for i := range absences {
		page.Away = append(page.Away, presentAbsence(&absences[i], names, page.Operates || absences[i].Person == self))
	}
	for i := range delegations {
		d := &delegations[i]
		page.Delegations = append(page.Delegations, presentDelegation(d, names, page.Operates || d.Member == self || d.Person == self))
	}
	page.List = presentTeams(members, shifts, schedules, names)
	for i := range members {
		if m := &members[i]; m.Person == self && m.Way == identity.ByMembership {
			page.Own = append(page.Own, m.Team)
		}
	}
	return nil
}

func listPeople(members []identity.Membership, shifts []identity.Shift, schedules []oncall.Schedule, absences []identity.Absence, delegations []identity.Delegation, reviewers []identity.Eligible) []uuid.UUID {
	var people []uuid.UUID
	for i := range members {
		people = append(people, members[i].Person, members[i].For)
	}
	for i := range shifts {
		people = append(people, shifts[i].People...)
	}
	for i := range schedules {
		people = append(people, schedules[i].CreatedBy)
	}
	for i := range absences {
		people = append(people, absences[i].Person, absences[i].Substitute)
	}
	for i := range delegations {
		people = append(people, delegations[i].Person, delegations[i].Member, delegations[i].CreatedBy)
	}
	for i := range reviewers {
		people = append(people, reviewers[i].Person)
	}
	return people
}

func presentAbsence(a *identity.Absence, names map[uuid.UUID]string, mayEnd bool) Absence {
	shown := Absence{Person: present.PersonName(a.Person, names), Starts: a.Starts, Ends: a.Ends}
	if a.Substitute != uuid.Nil {
		shown.Substitute = present.PersonName(a.Substitute, names)
	}
	if mayEnd {
		shown.End = teamsURL + "/absences/" + a.ID.String() + "/end"
	}
	return shown
}

func presentDelegation(d *identity.Delegation, names map[uuid.UUID]string, mayEnd bool) Delegation {
	shown := Delegation{Team: d.Team, Person: present.PersonName(d.Person, names), By: present.PersonName(cmp.Or(d.Member, d.CreatedBy), names), Ends: d.Ends}
	if mayEnd {
		shown.End = teamsURL + "/delegations/" + d.ID.String() + "/end"
	}
	return shown
}

func presentTeams(members []identity.Membership, shifts []identity.Shift, schedules []oncall.Schedule, names map[uuid.UUID]string) []Team {
	teams := map[string]*Team{}
	find := func(name string) *Team {
		if teams[name] == nil {
			teams[name] = &Team{Name: name}
		}
		return teams[name]
	}
	for i := range members {
		m, t := &members[i], find(members[i].Team)
		one := Member{Name: present.PersonName(m.Person, names), Way: m.Way, Until: m.Until}
		if m.For != uuid.Nil {
			one.For = present.PersonName(m.For, names)
		}
		t.Members = append(t.Members, one)
	}
	for i := range shifts {
		s, t := &shifts[i], find(shifts[i].Team)
		if len(s.People) == 0 {
			t.OnCall = append(t.OnCall, OnCall{Who: s.Label, Until: s.Ends, Unknown: true})
		}
		for _, id := range s.People {
			t.OnCall = append(t.OnCall, OnCall{Who: present.PersonName(id, names), Until: s.Ends})
		}
	}
	for i := range schedules {
		s := &schedules[i]
		path := teamsURL + "/schedules/" + url.PathEscape(s.Team)
		shown := &Schedule{State: scheduleState(s), Since: s.FailedSince, Error: s.Error, Fetch: path + "/fetch", Delete: path + "/delete", Facts: []view.Fact{
			{Name: text.TeamHost(), Text: text.Literal(s.Host), Code: true},
		}}
		if s.CheckedAt != nil {
			shown.Facts = append(shown.Facts, view.Fact{Name: text.TeamChecked(), Time: s.CheckedAt})
		}
		if name := names[s.CreatedBy]; name != "" {
			shown.Facts = append(shown.Facts, view.Fact{Name: text.TeamSetBy(), Text: text.Literal(name)})
		}
		find(s.Team).Schedule = shown
	}
	list := make([]Team, 0, len(teams))
	for _, name := range slices.Sorted(maps.Keys(teams)) {
		list = append(list, *teams[name])
	}
	return list
}

func scheduleState(s *oncall.Schedule) view.Badge {
	switch {
	case s.FailedSince != nil:
		return view.Badge{Level: view.Danger, Icon: "failed", Word: text.TeamFailing()}
	case s.CheckedAt == nil:
		return view.Badge{Level: view.Quiet, Icon: "bell", Word: text.TeamUnread()}
	}
	return view.Badge{Level: view.Good, Icon: "good", Word: text.TeamWorking()}
}

// readTime reads a time of a form, in the zone of the reader. Empty: the zero time.
func readTime(ctx context.Context, r *http.Request, field string, end bool) (time.Time, error) {
	at, err := query.ParseTime(r.PostFormValue(field), end, view.Zone(ctx))
	if err != nil {
		return at, fault.Invalid(field, err.Error())
	}
	return at, nil
}

// readPerson reads a person of a form. Empty: uuid.Nil.
func readPerson(r *http.Request, field string) (uuid.UUID, error) {
	value := r.PostFormValue(field)
	if value == "" {
		return uuid.Nil, nil
	}
	id, err := uuid.Parse(value)
	if err != nil {
		return uuid.Nil, fault.Invalid(field, "must be a reviewer")
	}
	return id, nil
}

// AddAbsence adds an absence of the reader, or for operators of anybody.
func (h *Handler) AddAbsence(w http.ResponseWriter, r *http.Request) {
	access, _ := login.Access(r.Context())
	form := Form{Kind: FormAbsence, From: r.PostFormValue("from"), Until: r.PostFormValue("until"), Person: r.PostFormValue("person"), Substitute: r.PostFormValue("substitute")}
	wanted := identity.NewAbsence{}
	var err error
	if wanted.Person, err = readPerson(r, "person"); err == nil && (wanted.Person == uuid.Nil || !access.Has(identity.Operator)) {
		wanted.Person = access.Person.ID
	}
	if err == nil {
		wanted.Substitute, err = readPerson(r, "substitute")
	}
	if err == nil {
		wanted.Starts, err = readTime(r.Context(), r, "from", false)
	}
	if err == nil {
		wanted.Ends, err = readTime(r.Context(), r, "until", true)
	}
	if err == nil {
		_, err = h.identity.AddAbsence(r.Context(), shell.Actor(r), wanted)
	}
	if err != nil {
		h.refuse(w, r, form, rename(err, "ends", "until"))
		return
	}
	shell.RedirectDone(w, r, teamsURL, shell.AbsenceSet)
}

// rename gives an invalid field the name that it has in a form.
func rename(err error, field, name string) error {
	var wrong *fault.InvalidError
	if errors.As(err, &wrong) && wrong.Fields[0].Name == field {
		return fault.Invalid(name, wrong.Fields[0].Expected)
	}
	return err
}

// owner returns the reader, whose own objects they may change, or uuid.Nil for operators, who may change all.
func owner(access identity.Access) uuid.UUID {
	if access.Has(identity.Operator) {
		return uuid.Nil
	}
	return access.Person.ID
}

// EndAbsence ends an absence.
func (h *Handler) EndAbsence(w http.ResponseWriter, r *http.Request) {
	access, _ := login.Access(r.Context())
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		id = uuid.Nil
	}
	if err := h.identity.EndAbsence(r.Context(), shell.Actor(r), owner(access), id); err != nil {
		h.refuse(w, r, Form{}, err)
		return
	}
	shell.RedirectDone(w, r, teamsURL, shell.AbsenceEnded)
}

// Delegate makes a reviewer a member of a team until a time.
func (h *Handler) Delegate(w http.ResponseWriter, r *http.Request) {
	access, _ := login.Access(r.Context())
	form := Form{Kind: FormDelegation, Team: shell.Line(r, "team"), Person: r.PostFormValue("to"), Until: r.PostFormValue("ends")}
	wanted := identity.NewDelegation{Team: form.Team, Member: owner(access)}
	var err error
	if wanted.Person, err = readPerson(r, "to"); err == nil {
		wanted.Ends, err = readTime(r.Context(), r, "ends", true)
	}
	if err == nil {
		_, err = h.identity.Delegate(r.Context(), shell.Actor(r), wanted)
	}
	if err != nil {
		h.refuse(w, r, form, rename(err, "person", "to"))
		return
	}
	shell.RedirectDone(w, r, teamsURL, shell.Delegated)
}

// EndDelegation ends a delegation.
func (h *Handler) EndDelegation(w http.ResponseWriter, r *http.Request) {
	access, _ := login.Access(r.Context())
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		id = uuid.Nil
	}
	if err := h.identity.EndDelegation(r.Context(), shell.Actor(r), owner(access), id); err != nil {
		h.refuse(w, r, Form{}, err)
		return
	}
	shell.RedirectDone(w, r, teamsURL, shell.DelegationEnded)
}

// SetSchedule sets the calendar of a team, and fetches it.
func (h *Handler) SetSchedule(w http.ResponseWriter, r *http.Request) {
	form := Form{Kind: FormSchedule, Team: shell.Line(r, "name")}
	if _, err := h.oncall.Set(r.Context(), shell.Actor(r), form.Team, shell.Line(r, "url")); err != nil {
		h.refuse(w, r, form, rename(err, "team", "name"))
		return
	}
	shell.RedirectDone(w, r, teamsURL, shell.ScheduleSet)
}

// FetchSchedule fetches the calendar of a team now. The page has the result.
func (h *Handler) FetchSchedule(w http.ResponseWriter, r *http.Request) {
	if _, err := h.oncall.Fetch(r.Context(), r.PathValue("name")); err != nil {
		h.refuse(w, r, Form{}, err)
		return
	}
	shell.RedirectDone(w, r, teamsURL, shell.ScheduleFetched)
}

// DeleteSchedule deletes the calendar of a team.
func (h *Handler) DeleteSchedule(w http.ResponseWriter, r *http.Request) {
	if err := h.oncall.Delete(r.Context(), shell.Actor(r), r.PathValue("name")); err != nil {
		h.refuse(w, r, Form{}, err)
		return
	}
	shell.RedirectDone(w, r, teamsURL, shell.ScheduleDeleted)
}
