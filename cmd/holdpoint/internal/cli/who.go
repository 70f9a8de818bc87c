package cli

import (
	"strings"
	"time"
)

// personName is a person as the API names them.
type personName struct {
	ID        string  `json:"id"`
	Name      string  `json:"name"`
	Issuer    string  `json:"issuer"`
	Subject   string  `json:"subject"`
	Alike     bool    `json:"alike"`
	InvitedBy *string `json:"invited_by"`
}

// personOr is the person, or what a server of an older version knows: the name.
func personOr(p *personName, name *string) *personName {
	if p == nil && name != nil {
		return &personName{Name: *name}
	}
	return p
}

// short is the name for a list: with subject and issuer where the name alone does not say who it is, and with what a
// reader has to know before believing it. Nobody is "".
func (p *personName) short() string {
	if p == nil {
		return ""
	}
	text := p.Name
	if p.Subject != "" && (p.Alike || p.Issuer != "holdpoint" || p.Subject != p.Name) {
		text += " (" + p.Subject + " at " + p.Issuer + ")"
	}
	return text + p.notes()
}

// full also has the id.
func (p *personName) full() string {
	if p == nil {
		return ""
	}
	if p.ID == "" {
		return p.Name
	}
	return p.Name + " (id " + p.ID + ", " + p.Subject + " at " + p.Issuer + ")" + p.notes()
}

func (p *personName) notes() string {
	var notes string
	if p.Alike {
		notes += ", name looks like another's"
	}
	if p.InvitedBy != nil {
		notes += ", invited by " + *p.InvitedBy + ", not verified"
	}
	return notes
}

// credentialView names a credential that somebody authenticated with.
type credentialView struct {
	Kind string  `json:"kind"`
	ID   *string `json:"id"`
}

// words are kind and id.
func (c *credentialView) words() string {
	if c == nil {
		return ""
	}
	return strings.TrimSpace(strings.ReplaceAll(c.Kind, "_", " ") + " " + value(c.ID))
}

// decisionView is what was decided, by whom, and with what.
type decisionView struct {
	By         *string         `json:"by"`
	ByPerson   *personName     `json:"by_person"`
	At         time.Time       `json:"at"`
	Outcome    string          `json:"outcome"`
	Note       string          `json:"note"`
	Credential *credentialView `json:"credential"`
	Address    *string         `json:"address"`
}

// pairs are the fields of a decision.
func (d *decisionView) pairs() []string {
	if d == nil {
		return nil
	}
	by := "nobody, the deadline passed"
	if person := personOr(d.ByPerson, d.By); person != nil {
		by = person.full()
	} else if d.Outcome != "expired" {
		by = "nobody"
	}
	return []string{
		"Decided", d.Outcome + " at " + moment(&d.At) + " by " + by, "Decided with", d.Credential.words(), "Decided from", value(d.Address), "Note", d.Note,
	}
}
