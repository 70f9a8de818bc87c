package ui

import (
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/oauthclient"
	"github.com/holdpoint/holdpoint/ui/view"
)

// presentLink draws a connection, or the place of one, as one person may use it.
func presentLink(l *link, names map[uuid.UUID]string, now time.Time) view.Connection {
	v := view.Connection{
		Skill: l.skill.Name, SkillURL: skillURL(l.skill.ID), Shared: l.key.Principal == uuid.Nil, Own: l.mine,
		Whose: personName(l.key.Principal, names),
	}
	presentState(&v, l, now)
	if l.connect && !l.needless() {
		v.Connect = presentConnect(l)
	}
	if needsSomebody(l, now) {
		who := presentResolver(l, v.Whose)
		v.Who = &who
	}
	c := l.there
	if c == nil {
		return v
	}
	v.URL = connectionURL(c.ID)
	if l.disconnect {
		v.Disconnect = v.URL + "/disconnect"
	}
	switch c.Need {
	case oauthclient.NeedNothing, oauthclient.NeedConsent, oauthclient.NeedIssuer: // the state says all there is to say
	default:
		v.Reason = c.Reason
	}
	v.Error, v.ErrorAt = c.Error, c.ErrorAt
	v.Facts = connectionFacts(c, names)
	return v
}

// presentState says where a connection stands, in plain words.
func presentState(v *view.Connection, l *link, now time.Time) {
	c := l.there
	switch {
	case c == nil:
		v.Status, v.Words = absentState(l)
	case l.stray:
		v.Status = view.Badge{Word: "Left over", Icon: "unknown", Level: view.Quiet}
		v.Words = "The skill, or who is who, was changed since: calls no longer use this one."
	case c.Need != oauthclient.NeedNothing:
		v.Status, v.Words = needState(c.Need)
	case c.State(now) == oauthclient.StateFailing:
		v.Status, v.Words = view.Badge{Word: "Failing", Icon: "failed", Level: view.Danger}, "The last attempt to get a token failed."
	case c.State(now) == oauthclient.StateNeeds:
		v.Status, v.Words = absentState(l)
	case c.State(now) == oauthclient.StateExpired:
		v.Status = view.Badge{Word: "Ran out", Icon: "expired", Level: view.Warn}
		v.Words, v.Until, v.After = "It was good until ", c.ExpiresAt, " and does not renew by itself: somebody has to connect again."
	case c.ExpiresAt == nil:
		v.Status, v.Words = connectedBadge(), "Its authorization server did not say until when. It does not renew by itself."
		if c.Renewable {
			v.Words = "Its authorization server did not say until when. It renews by itself when it has to."
		}
	case c.Renewable:
		v.Status = connectedBadge()
		v.Words, v.Until, v.After = "Connected until ", c.ExpiresAt, " (it renews by itself)"
	default:
		v.Status = connectedBadge()
		v.Words, v.Until, v.After = "Connected until ", c.ExpiresAt, " (it does not renew by itself: somebody has to connect again then)"
	}
}

func connectedBadge() view.Badge {
	return view.Badge{Word: "Connected", Icon: "good", Level: view.Good}
}

func absentState(l *link) (badge view.Badge, words string) {
	badge = view.Badge{Word: "Not connected", Icon: "stale", Level: view.Quiet}
	switch {
	case !connectable(l.skill):
		return view.Badge{Word: "Not needed", Icon: "standard", Level: view.Quiet}, "As this skill is set up, no connection is made for it."
	case l.needless():
		return view.Badge{Word: "Not needed", Icon: "standard", Level: view.Quiet}, "Its server lets Holdpoint in without a connection."
	case !l.asksPeople():
		return badge, "No person has to connect it: Holdpoint does, when its server asks for it."
	case l.mine:
		return badge, "You have not connected your account yet."
	case l.key.Principal != uuid.Nil:
		return badge, "This person has not connected their account yet."
	case l.skill.Health.ListedAt == nil:
		return badge, "Its server was not asked yet whether it needs a connection."
	}
	return badge, "Nobody has connected it."
}

func needState(need oauthclient.Need) (badge view.Badge, words string) {
	badge = view.Badge{Icon: "stale", Level: view.Warn}
	switch need {
	case oauthclient.NeedScope:
		badge.Word, words = "More is asked for", "It is connected, but its server wants more than was granted."
	case oauthclient.NeedAgain:
		badge.Word, words = "Connect again", "What was granted is gone."
	case oauthclient.NeedIssuer:
		badge.Word, words = "Choice needed", "Its server takes tokens of several authorization servers: one has to be chosen."
	case oauthclient.NeedClient:
		badge.Word, words = "Client missing", "Holdpoint cannot register itself at the authorization server: the skill's settings have to name a client (oauth.client_id)."
	case oauthclient.NeedSettings:
		badge.Word, words = "Settings refused", "The authorization server refuses what the skill's settings say."
	case oauthclient.NeedConsent, oauthclient.NeedNothing:
		badge.Word, words = "Not connected", "Its server asks for a connection, and there is none yet."
	}
	return badge, words
}

func presentConnect(l *link) *view.Connect {
	v := &view.Connect{URL: skillURL(l.skill.ID) + "/connect", Label: "Connect", Primary: true}
	if l.mine {
		v.Label = "Connect your account"
	}
	c := l.there
	if c == nil {
		return v
	}
	if c.ConnectedAt != nil {
		v.Label, v.Primary = "Reconnect", c.Need != oauthclient.NeedNothing
	}
	if c.Need == oauthclient.NeedIssuer {
		v.Issuers = c.Issuers
	}
	return v
}

// needsSomebody reports whether nothing goes on without a person.
func needsSomebody(l *link, now time.Time) bool {
	switch {
	case l.stray || l.needless() || !connectable(l.skill):
		return false
	case l.there == nil:
		return l.asksPeople()
	case l.there.Need != oauthclient.NeedNothing:
		return true
	}
	return l.asksPeople() && (l.there.ConnectedAt == nil || l.there.Expired(now))
}

// presentResolver says who can do what is needed.
func presentResolver(l *link, owner string) view.Resolver {
	need := oauthclient.NeedNothing
	if l.there != nil {
		need = l.there.Need
	}
	settings := need == oauthclient.NeedClient || need == oauthclient.NeedSettings || !l.asksPeople()
	switch {
	case settings && l.operator:
		return view.Resolver{URL: skillURL(l.skill.ID), Before: "You can change the skill's settings, as an operator.", Label: "To the skill"}
	case settings:
		return view.Resolver{Before: "An operator has to change the skill's settings."}
	case l.connect && l.mine:
		return view.Resolver{URL: skillURL(l.skill.ID), Before: "It is your own account that is needed.", Label: "Connect your account"}
	case l.connect:
		return view.Resolver{URL: skillURL(l.skill.ID), Before: "You can connect it, for all who use it.", Label: "Connect"}
	case l.key.Principal == uuid.Nil && l.skill.PerUser:
		return view.Resolver{Before: "Nobody can: each person has a connection of their own, and the call is made on nobody's behalf."}
	case l.key.Principal == uuid.Nil:
		return view.Resolver{Before: "An operator has to connect it."}
	}
	return view.Resolver{Before: "Only ", Name: owner, After: " can connect it: it is their own account."}
}

func connectionFacts(c *oauthclient.Connection, names map[uuid.UUID]string) []view.Fact {
	var list []view.Fact
	text := func(name, value string) {
		if value != "" {
			list = append(list, view.Fact{Name: name, Text: value, Code: true})
		}
	}
	at := func(name string, when *time.Time) {
		if when != nil {
			list = append(list, view.Fact{Name: name, Time: when})
		}
	}
	at("Connected", c.ConnectedAt)
	if c.ConnectedBy != uuid.Nil {
		list = append(list, view.Fact{Name: "Connected by", Text: personName(c.ConnectedBy, names)})
	}
	at("Last refresh", c.RefreshedAt)
	text("Authorization server", c.Issuer)
	text("Resource", c.Resource)
	if c.ConnectedAt != nil {
		list = append(list, view.Fact{Name: "Scopes granted", Text: scopeWords(c.ScopesGranted), Code: len(c.ScopesGranted) > 0})
		list = append(list, view.Fact{Name: "Scopes asked for", Text: scopeWords(c.ScopesAsked), Code: len(c.ScopesAsked) > 0})
	}
	text("Scopes its server wants", strings.Join(c.NeedScopes, " "))
	text("Grant", c.Grant)
	text("Client", c.ClientID)
	return list
}

func scopeWords(scopes []string) string {
	if len(scopes) == 0 {
		return "none"
	}
	return strings.Join(scopes, " ")
}
