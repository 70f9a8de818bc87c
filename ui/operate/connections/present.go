package connections

import (
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/oauthclient"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// presentLink shows a connection, or that there is none yet, as one person may use it.
func presentLink(l *Link, names map[uuid.UUID]string, now time.Time) Connection {
	v := Connection{
		Skill: l.Skill.Name, SkillURL: present.SkillURL(l.Skill.ID), Shared: l.key.Principal == uuid.Nil, Own: l.mine,
		Whose: present.PersonName(l.key.Principal, names),
	}
	presentState(&v, l, now)
	if l.connect && !l.needless() {
		v.Connect = presentConnect(l)
	}
	if needsPerson(l, now) {
		who := presentResolver(l, v.Whose)
		v.Who = &who
	}
	c := l.There
	if c == nil {
		return v
	}
	v.URL = present.ConnectionURL(c.ID)
	if l.disconnect {
		v.Disconnect = v.URL + "/disconnect"
	}
	switch c.Need {
	case oauthclient.NeedNothing, oauthclient.NeedConsent, oauthclient.NeedIssuer: // the state tells it
	default:
		v.Reason = c.Reason
	}
	v.Error, v.ErrorAt = c.Error, c.ErrorAt
	v.Facts = connectionFacts(c, names)
	return v
}

func presentState(v *Connection, l *Link, now time.Time) {
	c := l.There
	switch {
	case c == nil:
		v.Status, v.State = presentAbsence(l)
	case l.stray:
		v.Status = view.Badge{Word: text.ConnectionLeftOver(), Icon: "unknown", Level: view.Quiet}
		v.State = text.ConnectionLeftOverState()
	case c.Need != oauthclient.NeedNothing:
		v.Status, v.State = presentNeed(c.Need)
	case c.State(now) == oauthclient.StateFailing:
		v.Status = view.Badge{Word: text.ConnectionFailing(), Icon: "failed", Level: view.Danger}
		v.State = text.ConnectionFailingState()
	case c.State(now) == oauthclient.StateNeeds:
		v.Status, v.State = presentAbsence(l)
	case c.State(now) == oauthclient.StateExpired:
		v.Status = view.Badge{Word: text.ConnectionExpired(), Icon: "expired", Level: view.Warn}
		v.State = text.ConnectionExpiredState(view.Clock(*c.ExpiresAt))
	default:
		v.Status, v.State = view.Badge{Word: text.ConnectionConnected(), Icon: "good", Level: view.Good}, presentExpiry(c, now)
	}
}

func presentExpiry(c *oauthclient.Connection, now time.Time) templ.Component {
	switch {
	case c.ExpiresAt == nil && c.Renewable:
		return text.ConnectionUnknownExpiryRenewable()
	case c.ExpiresAt == nil:
		return text.ConnectionUnknownExpiry()
	case c.Renewable && c.ExpiresAt.Before(now):
		return text.ConnectionExpiredRenewable()
	case c.Renewable:
		return text.ConnectionRenewableUntil(view.Clock(*c.ExpiresAt))
	}
	return text.ConnectionConnectedUntil(view.Clock(*c.ExpiresAt))
}

func presentAbsence(l *Link) (view.Badge, text.Message) {
	badge := view.Badge{Word: text.ConnectionNotConnected(), Icon: "stale", Level: view.Quiet}
	needless := view.Badge{Word: text.ConnectionNotNeeded(), Icon: "standard", Level: view.Quiet}
	switch {
	case !Connectable(l.Skill):
		return needless, text.ConnectionNotConnectable()
	case l.needless():
		return needless, text.ConnectionOpen()
	case !l.asksPeople():
		return badge, text.ConnectionAutomatic()
	case l.mine:
		return badge, text.ConnectionYoursMissing()
	case l.key.Principal != uuid.Nil:
		return badge, text.ConnectionTheirsMissing()
	case l.Skill.Health.ListedAt == nil:
		return badge, text.ConnectionNotAsked()
	}
	return badge, text.ConnectionMissing()
}

func presentNeed(need oauthclient.Need) (badge view.Badge, state text.Message) {
	badge = view.Badge{Icon: "stale", Level: view.Warn}
	switch need {
	case oauthclient.NeedScope:
		badge.Word, state = text.ConnectionMoreRequested(), text.ConnectionMoreRequestedState()
	case oauthclient.NeedAgain:
		badge.Word, state = text.ConnectionAgain(), text.ConnectionAgainState()
	case oauthclient.NeedIssuer:
		badge.Word, state = text.ConnectionChoiceNeeded(), text.ConnectionChoiceNeededState()
	case oauthclient.NeedClient:
		badge.Word, state = text.ConnectionClientMissing(), text.ConnectionClientMissingState()
	case oauthclient.NeedSettings:
		badge.Word, state = text.ConnectionSettingsRefused(), text.ConnectionSettingsRefusedState()
	case oauthclient.NeedConsent, oauthclient.NeedNothing:
		badge.Word, state = text.ConnectionNotConnected(), text.ConnectionAskedState()
	}
	return badge, state
}

func presentConnect(l *Link) *Connect {
	v := &Connect{URL: present.SkillURL(l.Skill.ID) + "/connect", Label: text.ConnectionConnect(), Primary: true}
	if l.mine {
		v.Label = text.ConnectionConnectAccount()
	}
	c := l.There
	if c == nil {
		v.Primary = l.mine || l.Skill.OAuth != nil || l.Skill.Health.ListedAt != nil // otherwise the server may need none
		return v
	}
	if c.ConnectedAt != nil {
		v.Label, v.Primary = text.ConnectionReconnect(), c.Need != oauthclient.NeedNothing
	}
	if c.Need == oauthclient.NeedIssuer {
		v.Issuers = c.Issuers
	}
	return v
}

// needsPerson reports whether a person has to act before calls continue.
func needsPerson(l *Link, now time.Time) bool {
	switch {
	case l.stray || l.needless() || !Connectable(l.Skill):
		return false
	case l.There == nil:
		return l.asksPeople()
	case l.There.Need != oauthclient.NeedNothing:
		return true
	}
	return l.asksPeople() && (l.There.ConnectedAt == nil || l.There.Expired(now))
}

func connectionFacts(c *oauthclient.Connection, names map[uuid.UUID]string) []view.Fact {
	var list []view.Fact
	add := func(name text.Message, value string) {
		if value != "" {
			list = append(list, view.Fact{Name: name, Text: text.Literal(value), Code: true})
		}
	}
	addTime := func(name text.Message, when *time.Time) {
		if when != nil {
			list = append(list, view.Fact{Name: name, Time: when})
		}
	}
	addTime(text.ConnectionConnectedAt(), c.ConnectedAt)
	if c.ConnectedBy != uuid.Nil {
		list = append(list, view.Fact{Name: text.ConnectionConnectedBy(), Text: text.Literal(present.PersonName(c.ConnectedBy, names))})
	}
	addTime(text.ConnectionLastRefresh(), c.RefreshedAt)
	add(text.ConnectionIssuer(), c.Issuer)
	add(text.ConnectionResourceFact(), c.Resource)
	if c.ConnectedAt != nil {
		list = append(list, view.Fact{Name: text.ConnectionScopesGranted(), Text: listScopes(c.ScopesGranted), Code: len(c.ScopesGranted) > 0})
		list = append(list, view.Fact{Name: text.ConnectionScopesRequested(), Text: listScopes(c.ScopesAsked), Code: len(c.ScopesAsked) > 0})
	}
	add(text.ConnectionScopesNeeded(), strings.Join(c.NeedScopes, " "))
	add(text.ConnectionGrant(), c.Grant)
	add(text.ConnectionClient(), c.ClientID)
	return list
}

func listScopes(scopes []string) text.Message {
	if len(scopes) == 0 {
		return text.ConnectionNoScopes()
	}
	return text.Literal(strings.Join(scopes, " "))
}
