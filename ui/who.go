package ui

import (
	"context"
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/ui/view"
)

// introduce adds who the people of a call are.
func (u *UI) introduce(ctx context.Context, s *subject, ids ...uuid.UUID) error {
	people, err := u.people(ctx, ids...)
	if err != nil {
		return err
	}
	s.people, s.names = people, displayNames(people)
	s.notes, err = u.personNotes(ctx, slices.Collect(maps.Values(people)))
	return err
}

// who is a person of the call by what does not change; nil: nobody, or a person who is not known.
func (s *subject) who(id uuid.UUID) *view.Who {
	person, ok := s.people[id]
	if !ok {
		return nil
	}
	return &view.Who{ID: id.String(), Issuer: person.Issuer, Subject: person.Subject, Notes: s.notes[id]}
}

// originWords say how an actor came in; "": it is not known.
func originWords(o audit.Origin) string {
	var words string
	if kind := credentialWords(o.Credential.Kind); kind != "" {
		words = "with " + kind
		if o.Credential.ID != "" {
			words += " " + printable(o.Credential.ID)
		}
	}
	if o.Address != "" {
		if words != "" {
			words += " "
		}
		words += "from " + o.Address
	}
	return words
}

func credentialWords(kind string) string {
	switch kind {
	case audit.PersonalToken:
		return "personal token"
	case audit.BootstrapToken:
		return "the bootstrap token"
	case audit.BrowserSession:
		return "browser session"
	case audit.AgentKey:
		return "agent key"
	case audit.AccessToken:
		return "access token"
	case audit.Invitation:
		return "invitation"
	case audit.SignInLink:
		return "a sign-in link"
	}
	return ""
}
