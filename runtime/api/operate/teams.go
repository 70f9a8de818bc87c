package operate

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/oncall"
	"github.com/holdpoint/holdpoint/runtime/api/rest"
)

type teamHandlers struct {
	*rest.Directory

	schedules *oncall.Service
}

// Team is a team that has a member or a schedule.
type Team struct {
	Name     string       `json:"name"`
	Members  []Membership `json:"members" nullable:"false" doc:"The reviewers who are members at this moment. A person may be one in several ways."`
	OnCall   []Shift      `json:"on_call" nullable:"false" doc:"The present shifts of its schedule. Whoever they name is notified first; without anybody, the whole team is."`
	Schedule *Schedule    `json:"schedule" doc:"Null: the team has none."`
}

// Membership is a way in which a person is a member of a team at this moment.
type Membership struct {
	Person rest.PersonName  `json:"person"`
	Way    identity.Way     `json:"way" enum:"membership,delegation,substitution,on_call" doc:"membership: by a group or an operator; delegation: until a time; substitution: for a member who is away; on_call: the calendar names them."`
	For    *rest.PersonName `json:"for" doc:"The member who delegated it, or who is away; null: their own place."`
	OnCall bool             `json:"on_call" doc:"The calendar names them, or the member who is away."`
	Until  *time.Time       `json:"until" doc:"Null: no end is known."`
}

// Shift is a time in which a calendar names people.
type Shift struct {
	Label  string            `json:"label" doc:"From the calendar."`
	People []rest.PersonName `json:"people" nullable:"false" doc:"Whom it names; empty: nobody who is known here."`
	Starts time.Time         `json:"starts"`
	Ends   time.Time         `json:"ends"`
}

// Schedule is the calendar of a team. Its URL is a credential and not included.
type Schedule struct {
	_           struct{}   `nullable:"true"`
	Host        string     `json:"host" doc:"The host of its URL."`
	CheckedAt   *time.Time `json:"checked_at" doc:"The last time that it was read, or had not changed; null: never."`
	FailedSince *time.Time `json:"failed_since" doc:"Null: the last attempt succeeded, or there was none. Meanwhile the last known shifts count."`
	Error       *string    `json:"error" doc:"Of the last attempt."`
	CreatedBy   *string    `json:"created_by"`
	CreatedAt   time.Time  `json:"created_at"`
}

func newSchedule(s *oncall.Schedule, names rest.PersonNames) *Schedule {
	return &Schedule{
		Host: s.Host, CheckedAt: rest.UTCOrNull(s.CheckedAt), FailedSince: rest.UTCOrNull(s.FailedSince), Error: rest.OrNull(s.Error),
		CreatedBy: rest.OrNull(names.NameOf(s.CreatedBy)), CreatedAt: s.CreatedAt.UTC(),
	}
}

// listTeams has no pages: there are few teams.
func (h *teamHandlers) listTeams(ctx context.Context, _ *rest.None) (*rest.ListOutput[Team], error) {
	members, err := h.Identity.Roster(ctx)
	if err != nil {
		return nil, err
	}
	shifts, err := h.Identity.CurrentShifts(ctx)
	if err != nil {
		return nil, err
	}
	schedules, err := h.schedules.List(ctx)
	if err != nil {
		return nil, err
	}
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
	names, err := h.NamePeople(ctx, people...)
	if err != nil {
		return nil, err
	}
	teams := map[string]*Team{}
	find := func(name string) *Team {
		if teams[name] == nil {
			teams[name] = &Team{Name: name, Members: []Membership{}, OnCall: []Shift{}}
		}
		return teams[name]
	}
	for i := range members {
		m, t := &members[i], find(members[i].Team)
		t.Members = append(t.Members, Membership{Person: names.Find(m.Person), Way: m.Way, For: names.RefOf(m.For), OnCall: m.OnCall, Until: rest.UTCOrNull(m.Until)})
	}
	for i := range shifts {
		s, t := &shifts[i], find(shifts[i].Team)
		view := Shift{Label: s.Label, People: []rest.PersonName{}, Starts: s.Starts.UTC(), Ends: s.Ends.UTC()}
		for _, id := range s.People {
			view.People = append(view.People, names.Find(id))
		}
		t.OnCall = append(t.OnCall, view)
	}
	for i := range schedules {
		find(schedules[i].Team).Schedule = newSchedule(&schedules[i], names)
	}
	return rest.ListOf(slices.Sorted(maps.Keys(teams)), "", func(name string) Team { return *teams[name] }), nil
}

// listReviewers has no pages.
func (h *teamHandlers) listReviewers(ctx context.Context, _ *rest.None) (*rest.ListOutput[rest.PersonName], error) {
	found, err := h.Identity.Reviewers(ctx)
	if err != nil {
		return nil, err
	}
	people := make([]uuid.UUID, len(found))
	for i := range found {
		people[i] = found[i].Person
	}
	names, err := h.NamePeople(ctx, people...)
	if err != nil {
		return nil, err
	}
	return rest.ListOf(people, "", names.Find), nil
}

type setScheduleInput struct {
	rest.ByName
	Body struct {
		URL string `json:"url" doc:"The address of an iCalendar feed, such as PagerDuty and Opsgenie publish. It is stored encrypted and not shown again."`
	} `nameHint:"ScheduleRequest"`
}

func (h *teamHandlers) setSchedule(ctx context.Context, input *setScheduleInput) (*rest.Output[Schedule], error) {
	set, err := h.schedules.Set(ctx, rest.CallerOf(ctx).Actor(), input.Name, input.Body.URL)
	return h.oneSchedule(ctx, set, rest.InPart("body", err))
}

// fetchSchedule returns when the calendar was fetched: failed_since is the result.
func (h *teamHandlers) fetchSchedule(ctx context.Context, input *rest.ByName) (*rest.Output[Schedule], error) {
	fetched, err := h.schedules.Fetch(ctx, input.Name)
	return h.oneSchedule(ctx, fetched, rest.WithName(err, "schedule of team", input.Name))
}

func (h *teamHandlers) oneSchedule(ctx context.Context, s oncall.Schedule, err error) (*rest.Output[Schedule], error) {
	if err != nil {
		return nil, err
	}
	names, err := h.NamePeople(ctx, s.CreatedBy)
	if err != nil {
		return nil, err
	}
	return rest.NewOutput(*newSchedule(&s, names)), nil
}

func (h *teamHandlers) deleteSchedule(ctx context.Context, input *rest.ByName) (*rest.None, error) {
	return nil, rest.WithName(h.schedules.Delete(ctx, rest.CallerOf(ctx).Actor(), input.Name), "schedule of team", input.Name)
}

// Absence is a time in which a person is away.
type Absence struct {
	ID         uuid.UUID        `json:"id" format:"uuid"`
	Person     rest.PersonName  `json:"person"`
	Substitute *rest.PersonName `json:"substitute" doc:"Who is asked in their place too; null: nobody."`
	Starts     time.Time        `json:"starts"`
	Ends       time.Time        `json:"ends"`
	CreatedBy  *string          `json:"created_by"`
	CreatedAt  time.Time        `json:"created_at"`
}

func (h *teamHandlers) absenceViews(ctx context.Context, list ...identity.Absence) (func(identity.Absence) Absence, error) {
	var people []uuid.UUID
	for i := range list {
		people = append(people, list[i].Person, list[i].Substitute, list[i].CreatedBy)
	}
	names, err := h.NamePeople(ctx, people...)
	return func(a identity.Absence) Absence {
		return Absence{
			ID: a.ID, Person: names.Find(a.Person), Substitute: names.RefOf(a.Substitute), Starts: a.Starts.UTC(), Ends: a.Ends.UTC(),
			CreatedBy: rest.OrNull(names.NameOf(a.CreatedBy)), CreatedAt: a.CreatedAt.UTC(),
		}
	}, err
}

// listAbsences has no pages: absences that have ended are left out.
func (h *teamHandlers) listAbsences(ctx context.Context, _ *rest.None) (*rest.ListOutput[Absence], error) {
	found, err := h.Identity.Absences(ctx, uuid.Nil)
	return presentAll(ctx, found, err, h.absenceViews)
}

type createAbsenceInput struct {
	Body struct {
		Person     *uuid.UUID `json:"person,omitempty" format:"uuid" doc:"Omitted: the caller. Only operators name another person."`
		Substitute *uuid.UUID `json:"substitute,omitempty" format:"uuid" doc:"A reviewer who is asked in their place too. Omitted: nobody."`
		Starts     *time.Time `json:"starts,omitempty" doc:"Omitted: now."`
		Ends       time.Time  `json:"ends" doc:"Within a year of the start."`
	} `nameHint:"AbsenceRequest"`
}

func (h *teamHandlers) createAbsence(ctx context.Context, input *createAbsenceInput) (*rest.Output[Absence], error) {
	caller, wanted := rest.CallerOf(ctx), identity.NewAbsence{Ends: input.Body.Ends}
	wanted.Person = caller.PersonID()
	if p := input.Body.Person; p != nil {
		wanted.Person = *p
	}
	if wanted.Person != caller.PersonID() && !caller.HasRole(identity.Operator) {
		return nil, rest.InvalidField("body.person", "must be yourself: only operators do this for others")
	}
	if s := input.Body.Substitute; s != nil {
		wanted.Substitute = *s
	}
	if s := input.Body.Starts; s != nil {
		wanted.Starts = *s
	}
	made, err := h.Identity.AddAbsence(ctx, caller.Actor(), wanted)
	if errors.Is(err, fault.ErrNotFound) {
		return nil, rest.InvalidField("body.person", "must be a person who is known here")
	}
	return presentOne(ctx, made, rest.InPart("body", err), h.absenceViews)
}

// owner returns the caller, whose own objects they may change, or uuid.Nil for operators, who may change all.
func owner(c rest.Caller) uuid.UUID {
	if c.HasRole(identity.Operator) {
		return uuid.Nil
	}
	return c.PersonID()
}

func (h *teamHandlers) endAbsence(ctx context.Context, input *rest.ByID) (*rest.None, error) {
	return endDuty(ctx, "absence", input.ID, h.Identity.EndAbsence)
}

// endDuty ends an absence or a delegation, of the caller or for operators of anybody.
func endDuty(ctx context.Context, kind, id string, end func(ctx context.Context, by audit.Actor, owner, id uuid.UUID) error) (*rest.None, error) {
	parsed, err := rest.ParseID(kind, id)
	if err != nil {
		return nil, err
	}
	caller := rest.CallerOf(ctx)
	return nil, rest.WithName(end(ctx, caller.Actor(), owner(caller), parsed), kind, id)
}

// Delegation makes a person a member of a team until a time.
type Delegation struct {
	ID        uuid.UUID        `json:"id" format:"uuid"`
	Team      string           `json:"team"`
	Person    rest.PersonName  `json:"person"`
	Member    *rest.PersonName `json:"member" doc:"The member who gave it. It counts only while they are a member. Null: an operator gave it."`
	Ends      time.Time        `json:"ends"`
	CreatedBy *string          `json:"created_by"`
	CreatedAt time.Time        `json:"created_at"`
}

func (h *teamHandlers) delegationViews(ctx context.Context, list ...identity.Delegation) (func(identity.Delegation) Delegation, error) {
	var people []uuid.UUID
	for i := range list {
		people = append(people, list[i].Person, list[i].Member, list[i].CreatedBy)
	}
	names, err := h.NamePeople(ctx, people...)
	return func(d identity.Delegation) Delegation {
		return Delegation{
			ID: d.ID, Team: d.Team, Person: names.Find(d.Person), Member: names.RefOf(d.Member), Ends: d.Ends.UTC(),
			CreatedBy: rest.OrNull(names.NameOf(d.CreatedBy)), CreatedAt: d.CreatedAt.UTC(),
		}
	}, err
}

// listDelegations has no pages: delegations that have ended are left out.
func (h *teamHandlers) listDelegations(ctx context.Context, _ *rest.None) (*rest.ListOutput[Delegation], error) {
	found, err := h.Identity.Delegations(ctx)
	return presentAll(ctx, found, err, h.delegationViews)
}

type createDelegationInput struct {
	Body struct {
		Team   string    `json:"team" doc:"The caller is an operator or a member of it."`
		Person uuid.UUID `json:"person" format:"uuid" doc:"A reviewer other than the caller."`
		Ends   time.Time `json:"ends" doc:"Within a year."`
	} `nameHint:"DelegationRequest"`
}

func (h *teamHandlers) createDelegation(ctx context.Context, input *createDelegationInput) (*rest.Output[Delegation], error) {
	caller := rest.CallerOf(ctx)
	made, err := h.Identity.Delegate(ctx, caller.Actor(), identity.NewDelegation{
		Team: input.Body.Team, Person: input.Body.Person, Member: owner(caller), Ends: input.Body.Ends,
	})
	return presentOne(ctx, made, rest.InPart("body", err), h.delegationViews)
}

func (h *teamHandlers) endDelegation(ctx context.Context, input *rest.ByID) (*rest.None, error) {
	return endDuty(ctx, "delegation", input.ID, h.Identity.EndDelegation)
}
