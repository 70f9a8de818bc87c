package admin

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

func (h *tokenPages) makeToken(w http.ResponseWriter, r *http.Request, complain func(NewToken)) {
	access, _ := login.Access(r.Context())
	roles := readRoles(r.PostForm)
	form := NewToken{
		Agents: r.PostForm.Get("agents"), Reviewer: slices.Contains(roles, identity.Reviewer), Operator: slices.Contains(roles, identity.Operator),
	}
	made, err := h.identity.CreateOwnToken(r.Context(), access, roles, splitList(form.Agents))
	invalid, ok := errors.AsType[*fault.InvalidError](err)
	switch {
	case ok:
		form.Error = text.Literal(invalid.Error())
		complain(form)
		return
	case errors.Is(err, identity.ErrTokensOff):
		form.Error = text.TokenOff()
		complain(form)
		return
	case errors.Is(err, identity.ErrBootstrap):
		form.Error = text.TokenBootstrap()
		complain(form)
		return
	case err != nil:
		h.Fail(w, r, err)
		return
	}
	back := "/settings#tokens"
	if access.Has(identity.Operator) {
		back = present.MemberURL(made.Person.ID)
	}
	page := h.Page(r, view.SectionMembers, text.TokenNew(), approval.Pulse{Now: h.Now()})
	h.Render(w, r, http.StatusOK, MadeTokenPage(page, view.MadeToken{Name: made.Person.Name, Secret: made.Secret, URL: back, Ends: made.ExpiresAt}))
}

func (h *tokenPages) presentTokens(tokens []identity.Token) []TokenRow {
	rows := make([]TokenRow, len(tokens))
	for i := range tokens {
		t := &tokens[i]
		rows[i] = TokenRow{
			ID: t.ID.String(), Hint: t.Hint, Roles: present.RoleList(t.Roles), Agents: text.Literal(strings.Join(t.Agents, ", ")),
			Created: t.CreatedAt, Ends: t.ExpiresAt, EndsSoon: h.identity.EndsSoon(t.ExpiresAt),
		}
		switch {
		case slices.Contains(t.Agents, identity.AnyAgent):
			rows[i].Agents = text.TokenEveryAgent()
		case len(t.Agents) == 0:
			rows[i].Agents = text.TokenNoAgent()
		}
	}
	return rows
}
