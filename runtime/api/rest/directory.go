package rest

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
)

// Directory finds people, agents and skills for all handlers.
type Directory struct {
	Identity *identity.Service
	Agents   *agent.Service
}

// FindAgentID returns the id of the agent with a name.
func (d *Directory) FindAgentID(ctx context.Context, name string) (uuid.UUID, error) {
	found, err := d.Agents.AgentByName(ctx, name)
	if err != nil {
		return uuid.Nil, WithName(err, "agent", name)
	}
	return found.ID, nil
}

// FindSkill returns the skill with a name.
func (d *Directory) FindSkill(ctx context.Context, name string) (*agent.Skill, error) {
	found, err := d.Agents.SkillByName(ctx, name)
	return found, WithName(err, "skill", name)
}

// FindSkillOrID finds a skill by its name or its id.
func (d *Directory) FindSkillOrID(ctx context.Context, text string) (*agent.Skill, error) {
	found, err := d.Agents.SkillByName(ctx, text)
	if id, noID := uuid.Parse(text); noID == nil && errors.Is(err, fault.ErrNotFound) {
		found, _, err = d.Agents.FreshSkill(ctx, id)
	}
	return found, WithName(err, "skill", text)
}

// OwnViewer returns the viewer for a caller who sees only their own calls, with the one agent that they are or name.
func (d *Directory) OwnViewer(ctx context.Context, agentName string) (call.Viewer, error) {
	who := CallerOf(ctx)
	if who.Agent != nil {
		if agentName != "" && agentName != who.Agent.Name {
			return call.Viewer{}, NotFound("agent", agentName)
		}
		return who.ViewerAs(who.Agent.ID), nil
	}
	if agentName == "" {
		return call.Viewer{}, InvalidField("query.agent", "must be the name of an agent that you act as")
	}
	if !who.Person.MayActAs(agentName) {
		return call.Viewer{}, NotFound("agent", agentName)
	}
	found, err := d.Agents.AgentByName(ctx, agentName)
	if err != nil {
		return call.Viewer{}, WithName(err, "agent", agentName)
	}
	return who.ViewerAs(found.ID), nil
}

// NamePeople returns people by id.
func (d *Directory) NamePeople(ctx context.Context, ids ...uuid.UUID) (PersonNames, error) {
	wanted := make([]uuid.UUID, 0, len(ids))
	for _, id := range ids {
		if id != uuid.Nil {
			wanted = append(wanted, id)
		}
	}
	if len(wanted) == 0 {
		return PersonNames{}, nil
	}
	people, err := d.Identity.People(ctx, wanted)
	if err != nil {
		return nil, err
	}
	return d.AddWarnings(ctx, people)
}

// AddWarnings names people who were read, as [Directory.NamePeople] does.
func (d *Directory) AddWarnings(ctx context.Context, people map[uuid.UUID]identity.Person) (PersonNames, error) {
	names := make(PersonNames, len(people))
	var inviters []uuid.UUID
	list := make([]identity.Person, 0, len(people))
	for _, person := range people {
		list = append(list, person)
		if !person.Verified() {
			inviters = append(inviters, person.InvitedBy)
		}
	}
	alike, err := d.Identity.Alike(ctx, list...)
	if err != nil {
		return nil, err
	}
	var invited map[uuid.UUID]identity.Person
	if len(inviters) > 0 {
		if invited, err = d.Identity.People(ctx, inviters); err != nil {
			return nil, err
		}
	}
	for id, person := range people {
		name := PersonName{ID: id, Name: person.Name, Issuer: person.Issuer, Subject: person.Subject, Alike: alike[id]}
		if !person.Verified() {
			name.InvitedBy = OrNull(invited[person.InvitedBy].Name)
		}
		names[id] = name
	}
	return names, nil
}

// PersonNames are people by id.
type PersonNames map[uuid.UUID]PersonName

// NameOf returns a person's name, or "".
func (n PersonNames) NameOf(id uuid.UUID) string { return n[id].Name }

// RefOf returns a person, or nil.
func (n PersonNames) RefOf(id uuid.UUID) *PersonName {
	name, ok := n[id]
	if !ok {
		return nil
	}
	return &name
}

// Find returns a person, or the id alone if the person was deleted.
func (n PersonNames) Find(id uuid.UUID) PersonName {
	name := n[id]
	name.ID = id
	return name
}

// PersonName identifies a person briefly.
type PersonName struct {
	_    struct{}  `nullable:"true"`
	ID   uuid.UUID `json:"id" format:"uuid"`
	Name string    `json:"name" doc:"The name from the issuer or from the person: not unique."`

	Issuer  string `json:"issuer" doc:"The identity provider; holdpoint: this server."`
	Subject string `json:"subject" doc:"The person's id at the issuer."`
	// Warnings about the name.
	Alike     bool    `json:"alike" doc:"Another person has the same or a similar-looking name."`
	InvitedBy *string `json:"invited_by" doc:"Set: known only by the invitation of this person; the identity is not verified."`
}

// maxUnconnected limits the waiting calls that are read.
const maxUnconnected = 200

// ListUnconnected lists the calls that wait for connections of the skills, and perhaps of others, the most urgent first.
func ListUnconnected(ctx context.Context, calls *call.Service, skills []uuid.UUID) ([]call.Unconnected, error) {
	only := skills[0]
	for _, id := range skills {
		if id != only {
			only = uuid.Nil // all skills
		}
	}
	return calls.ListUnconnected(ctx, only, maxUnconnected)
}
