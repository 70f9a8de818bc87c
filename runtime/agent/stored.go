package agent

import (
	"context"
	"errors"
	"net/textproto"
	"slices"
	"strings"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// notStored is what a secret must be that should stay as it is, and that the server does not have.
const notStored = "must be given: there is no stored value to keep"

// keepStoredOfSkill sets the secrets of a skill that stay as they are, before it is validated.
func (a *application) keepStoredOfSkill(ctx context.Context, s *Service, i int) error {
	names := a.stored[indexPath("skills", i)]
	if len(names) == 0 {
		return nil
	}
	var before *skillState
	row, err := readSkillRow(ctx, s.pool, `s.name = $1`, a.spec.Skills[i].Name)
	if err == nil {
		before, err = row.buildState(s.box)
	}
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	a.inPart("skills", i, func(at report) { a.skills[i].keepStored(at, before, names) })
	return nil
}

// keepStored sets secrets that stay as they are, by their paths. Like the secrets that a patch does not give, they stay with the server, the
// program and the client that they were given for. before is nil for a new skill.
func (s *skillState) keepStored(r report, before *skillState, names []string) {
	if before == nil {
		before = &skillState{}
	}
	sameOrigin := sameOrigin(before.secretTarget(), s.secretTarget())
	sameProgram := slices.Equal(before.Command, s.Command)
	for name, value := range s.Env {
		sameProgram = sameProgram && (!tool.ChoosesCode(name) || before.Env[name] == value)
	}
	keep := func(path, value string, sameTarget bool, message string, set func()) {
		switch {
		case value == "":
			r.add(path, notStored)
		case !sameTarget:
			r.add(path, message)
		default:
			set()
		}
	}
	for _, path := range names {
		part, name, _ := strings.Cut(path, ".")
		switch {
		case part == "headers":
			key := textproto.CanonicalMIMEHeaderKey(name)
			keep(path, before.Headers[key], sameOrigin, givenForAnother, func() { s.Headers[key] = before.Headers[key] })
		case part == "env":
			keep(path, before.Env[name], sameProgram, givenForAnotherProgram, func() {
				if s.Env == nil {
					s.Env = map[string]string{}
				}
				s.Env[name] = before.Env[name]
			})
		case part == "oauth" && s.OAuth != nil && before.OAuth != nil:
			s.OAuth.keepStored(name, before.OAuth, func(same bool, value string, secret *string) {
				keep(path, value, same && sameOrigin, givenForAnother, func() { *secret = value })
			})
		case path == "auth.secret" && s.API.Auth != nil && before.API.Auth != nil:
			keep(path, before.API.secret, sameOrigin && *s.API.Auth == *before.API.Auth, givenForAnother, func() { s.API.secret = before.API.secret })
		default:
			r.add(path, notStored)
		}
	}
}

// keepStored finds a secret that stays as it is, and whether the client is still the one that it was given for.
func (o *OAuthSpec) keepStored(name string, before *OAuthSpec, keep func(same bool, value string, secret *string)) {
	same, unused := o.Issuer == before.Issuer && o.ClientID == before.ClientID, ""
	idp, idpBefore := o.idpOrEmpty(), before.idpOrEmpty()
	switch {
	case name == secretClient:
		keep(same, before.ClientSecret, &o.ClientSecret)
	case name == secretKey:
		keep(same, before.PrivateKey, &o.PrivateKey)
	case name == secretIDPClient && o.IDP != nil:
		keep(idp.Issuer == idpBefore.Issuer && idp.ClientID == idpBefore.ClientID, idpBefore.ClientSecret, &o.IDP.ClientSecret)
	default:
		keep(false, "", &unused)
	}
}

// keepStored sets the API key of an agent's model if it stays as it is. before is nil for a new agent.
func (a *agentState) keepStored(r report, before *agentState, names []string) {
	for _, path := range names {
		switch {
		case path != "model.api_key" || a.Model == nil || before == nil || before.Model == nil || before.Model.APIKey == "":
			r.add(path, notStored)
		case a.Model.Provider != before.Model.Provider || a.Model.BaseURL != before.Model.BaseURL:
			r.add(path, givenForAnother)
		default:
			a.Model.APIKey = before.Model.APIKey
		}
	}
}
