package connections

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/oauthclient"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// presentResolver tells who can connect the skill, or change its settings if that is needed.
func presentResolver(l *Link, owner string) view.Resolver {
	who := chooseResolver(l, owner)
	if l.There != nil && l.There.Need == oauthclient.NeedConsent {
		_, who.State = presentNeed(l.There.Need)
	}
	return who
}

func chooseResolver(l *Link, owner string) view.Resolver {
	need := oauthclient.NeedNothing
	if l.There != nil {
		need = l.There.Need
	}
	settings := need == oauthclient.NeedClient || need == oauthclient.NeedSettings || !l.asksPeople()
	switch {
	case settings && l.operator:
		return view.Resolver{URL: present.SkillURL(l.Skill.ID), Text: text.ConnectionCanChangeSettings(), Label: text.ConnectionOpenSkill()}
	case settings:
		return view.Resolver{Text: text.ConnectionOperatorSettings()}
	case l.connect && l.mine:
		return view.Resolver{URL: present.SkillURL(l.Skill.ID), Text: text.ConnectionOwnAccount(), Label: text.ConnectionConnectAccount()}
	case l.connect:
		return view.Resolver{URL: present.SkillURL(l.Skill.ID), Text: text.ConnectionCanConnect(), Label: text.ConnectionConnect()}
	case l.key.Principal == uuid.Nil && l.Skill.PerUser:
		return view.Resolver{Text: text.ConnectionNobodyCan()}
	case l.key.Principal == uuid.Nil:
		return view.Resolver{Text: text.ConnectionOperatorConnects()}
	}
	return view.Resolver{Owner: owner}
}

// Resolver tells who can connect the skill that a call waits for.
func (h *Handler) Resolver(ctx context.Context, access identity.Access, c *call.Call, names map[uuid.UUID]string) (view.Resolver, error) {
	skill, _, err := h.agents.Skill(ctx, c.SkillID)
	if errors.Is(err, agent.ErrNotFound) {
		return view.Resolver{Text: text.ConnectionSkillRemoved()}, nil
	}
	if err != nil {
		return view.Resolver{}, err
	}
	l, err := h.linkFor(ctx, access, skill, c.PrincipalID)
	if err != nil {
		return view.Resolver{}, err
	}
	return presentResolver(l, present.PersonName(c.PrincipalID, names)), nil
}
