package ui

import (
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/ui/view"
)

// presentSessions shows somebody's sessions; current is the reader's.
func presentSessions(sessions []identity.Session, current uuid.UUID) []view.Session {
	shown := make([]view.Session, len(sessions))
	for i := range sessions {
		s := &sessions[i]
		shown[i] = view.Session{
			ID: s.ID.String(), Client: browserOf(s.Client), Current: s.ID == current,
			Facts: []view.Fact{
				{Name: "Signed in", Time: &s.CreatedAt}, {Name: "By", Text: methodWords(s.Method)}, {Name: "Ends", Time: &s.ExpiresAt},
			},
		}
		shown[i].Facts = append(shown[i].Facts, proofFacts(s)...)
	}
	return shown
}

// proofFacts say when somebody proved who they are, if that was not when they signed in.
func proofFacts(s *identity.Session) []view.Fact {
	const same = time.Minute // a provider says it in seconds, and people come back from it
	switch {
	case s.AuthenticatedAt.IsZero():
		return []view.Fact{{Name: "Proved it", Text: "the provider does not say when"}}
	case s.AuthenticatedAt.After(s.CreatedAt):
		return []view.Fact{{Name: "Proved again", Time: &s.AuthenticatedAt}}
	case s.CreatedAt.Sub(s.AuthenticatedAt) > same:
		return []view.Fact{{Name: "Proved it", Time: &s.AuthenticatedAt}}
	}
	return nil
}

func methodWords(method identity.Method) string {
	switch method {
	case identity.ByProvider:
		return "an identity provider"
	case identity.ByLink:
		return "a one-time link"
	case identity.ByToken:
		return "a token"
	default:
		return string(method)
	}
}

// browserOf makes of what a browser says of itself what people call it. Nothing depends on it.
func browserOf(agent string) string {
	first := func(marks ...string) string {
		for _, mark := range marks {
			in, name, named := strings.Cut(mark, "=")
			if strings.Contains(agent, in) {
				if !named {
					name = in
				}
				return name
			}
		}
		return ""
	}
	browser := first("Edg/=Edge", "EdgA/=Edge", "OPR/=Opera", "Firefox/=Firefox", "FxiOS/=Firefox", "SamsungBrowser/=Samsung Internet",
		"CriOS/=Chrome", "HeadlessChrome/=Chrome", "Chrome/=Chrome", "Safari/=Safari")
	system := first("Android", "iPhone", "iPad", "Windows", "CrOS=ChromeOS", "Macintosh=macOS", "Linux")
	switch {
	case agent == "":
		return "A browser that does not name itself"
	case browser == "":
		return agent
	case system == "":
		return browser
	}
	return browser + " on " + system
}
