package skills

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/httptool/setting"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// withoutCredentials returns the settings that can be checked before the credentials are known.
func (i *importing) withoutCredentials() agent.SkillSpec {
	spec := i.Spec
	spec.Auth, spec.OAuth = nil, nil
	return spec
}

// credentialsForm returns the form with the draft's credentials.
func (i *importing) credentialsForm() skillForm {
	f := skillForm{connection: agent.ConnectionShared}
	if i.Spec.Connection != "" {
		f.connection = i.Spec.Connection
	}
	for _, name := range slices.Sorted(maps.Keys(i.Spec.Headers)) {
		f.headers = append(f.headers, shell.Pair{Name: name, Kept: true})
	}
	if a := i.Spec.Auth; a != nil {
		f.api.authType, f.api.authIn, f.api.authName, f.api.authUsername, f.api.authKept = a.Type, a.In, a.Name, a.Username, a.Secret != ""
	}
	if o := i.Spec.OAuth; o != nil {
		f.oauth = oauthForm{grant: o.Grant, issuer: o.Issuer, clientID: o.ClientID, authMethod: o.AuthMethod, scopes: strings.Join(o.Scopes, " ")}
		if o.ClientSecret != "" {
			f.oauth.kept = append(f.oauth.kept, "client_secret")
		}
		if o.PrivateKey != "" {
			f.oauth.kept = append(f.oauth.kept, "private_key")
		}
		if o.IDP != nil {
			f.oauth.idpIssuer, f.oauth.idpClientID = o.IDP.Issuer, o.IDP.ClientID
			if o.IDP.ClientSecret != "" {
				f.oauth.kept = append(f.oauth.kept, "idp.client_secret")
			}
		}
	}
	return f
}

// AskCredentials shows the form for credentials.
func (h *ImportHandler) AskCredentials(w http.ResponseWriter, r *http.Request) {
	i, err := h.importOf(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	f := i.credentialsForm()
	h.answerWithCredentials(w, r, http.StatusOK, i, &f, nil)
}

func (h *ImportHandler) answerWithCredentials(w http.ResponseWriter, r *http.Request, status int, i *importing, f *skillForm, wrong shell.Faults) {
	auth := f.api.authPart(f.headers)
	if i.Spec.Transport == tool.OpenAPI {
		found, err := h.examineDocument(r, i)
		if err != nil {
			h.answerUnexamined(w, r, i, err)
			return
		}
		auth.Words = describeSchemes(found.SecuritySchemes)
	}
	form := view.Form{
		Name: "credentials-form", Action: importURL(i.ID) + "/credentials", Send: text.SkillImportContinue(), Cancel: "/skills",
		Parts: []view.FormPart{auth, f.oauthPart(), f.idpPart()}, Note: text.SkillImportCredentialsNote(),
	}
	wrong.ShowIn(&form, f.secretTyped())
	h.AnswerWithForm(w, r, status, view.SectionSkills, importCrumbs(i, stepCredentials), text.SkillImportCredentialsTitle(view.Printable(i.Spec.Name)), form)
}

// describeSchemes lists the authentication schemes of a document.
func describeSchemes(schemes []setting.SecurityScheme) text.Message {
	if len(schemes) == 0 {
		return text.SkillImportNoSchemes()
	}
	var list []string
	for _, s := range schemes {
		parts := []string{strings.Join(strings.Fields(s.Type+" "+s.Scheme+" "+s.In+" "+s.Parameter), " ")}
		for _, flow := range s.Flows {
			parts = append(parts, strings.TrimSpace(flow.Type+" "+flow.TokenURL))
			if len(flow.Scopes) > 0 {
				parts = append(parts, "scopes "+strings.Join(flow.Scopes[:min(8, len(flow.Scopes))], " "))
			}
		}
		list = append(list, s.Name+" ("+strings.Join(parts, ", ")+")")
	}
	return text.SkillImportSchemes(view.Printable(shell.Clean(strings.Join(list, "; "))))
}

// KeepCredentials stores the credentials in the draft, encrypted.
func (h *ImportHandler) KeepCredentials(w http.ResponseWriter, r *http.Request) {
	i, err := h.importOf(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	before := i.credentialsForm()
	f := readSkillForm(r, before)
	var wrong shell.Faults
	i.setCredentials(&f, &wrong)
	if err := h.agents.CheckSkill(i.Spec); err != nil {
		found, _ := shell.FaultsOf(err)
		wrong = append(wrong, found...)
	}
	if len(wrong) > 0 {
		h.answerWithCredentials(w, r, http.StatusUnprocessableEntity, i, &f, wrong)
		return
	}
	if err := h.keepImport(r, i); err != nil {
		h.Fail(w, r, err)
		return
	}
	shell.Redirect(w, r, importURL(i.ID)+"/try")
}

// setCredentials replaces the draft's credentials by those of a form. A secret whose field is empty stays.
func (i *importing) setCredentials(f *skillForm, wrong *shell.Faults) {
	headers := map[string]string{}
	maps.Copy(headers, i.Spec.Headers)
	for name, value := range wrong.Given("headers", f.headers) {
		if delete(headers, name); value != nil {
			headers[name] = *value
		}
	}
	i.Spec.Headers, i.Spec.Connection = headers, f.connection
	was := i.Spec.Auth
	if i.Spec.Auth = nil; f.api.authType != "" {
		i.Spec.Auth = f.api.authSpec()
		if was != nil && i.Spec.Auth.Secret == "" && was.Type == i.Spec.Auth.Type {
			i.Spec.Auth.Secret = was.Secret
		}
	}
	old := i.Spec.OAuth
	i.Spec.OAuth = f.oauth.makeSpec()
	if now := i.Spec.OAuth; now != nil && old != nil && now.Issuer == old.Issuer && now.ClientID == old.ClientID {
		keepText(&now.ClientSecret, old.ClientSecret)
		keepText(&now.PrivateKey, old.PrivateKey)
		if now.IDP != nil && old.IDP != nil && now.IDP.Issuer == old.IDP.Issuer {
			keepText(&now.IDP.ClientSecret, old.IDP.ClientSecret)
		}
	}
}

func keepText(now *string, before string) {
	if *now == "" {
		*now = before
	}
}
