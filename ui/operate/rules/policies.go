package rules

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval/policy"
	"github.com/holdpoint/holdpoint/internal/duration"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

const policiesURL = "/policies"

// ToPolicies leads from the address of a form to the list of policies.
func ToPolicies(w http.ResponseWriter, r *http.Request) { shell.Redirect(w, r, policiesURL) }

// PolicyList is the list of policies.
type PolicyList struct {
	Rows    []PolicyRow
	MayEdit bool
}

// PolicyRow is one policy in the list.
type PolicyRow struct {
	Name, URL string
	Needs     []string // alternatives
	Badges    []view.Badge
	Users     []view.Crumb
	At        time.Time
	By        string // empty: unknown
}

// Policy is one policy with its versions.
type Policy struct {
	Name, URL  string
	Notice     *view.Notice
	Deleted    bool
	MayEdit    bool
	Unmeetable bool // now
	Needs      []string
	Facts      []view.Fact
	Users      []view.Crumb
	Versions   []Version // the newest first
}

// ShowPolicies lists the policies by name.
func (h *Handler) ShowPolicies(w http.ResponseWriter, r *http.Request) {
	rows, err := h.listPolicies(r.Context())
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	pulse, err := h.calls.ReadPulse(r.Context())
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	h.Render(w, r, http.StatusOK, PoliciesPage(h.Page(r, view.SectionPolicies, text.PoliciesTitle(), pulse), PolicyList{Rows: rows, MayEdit: shell.MayEdit(r)}))
}

func (h *Handler) listPolicies(ctx context.Context) ([]PolicyRow, error) {
	versions, err := h.agents.ListPolicies(ctx)
	if err != nil {
		return nil, err
	}
	reviewers, err := h.readReviewers(ctx)
	if err != nil {
		return nil, err
	}
	names, err := h.nameChangers(ctx, versions)
	if err != nil {
		return nil, err
	}
	users, err := h.agents.FindPolicyUsers(ctx)
	if err != nil {
		return nil, err
	}
	rows := make([]PolicyRow, len(versions))
	for i := range versions {
		v := &versions[i]
		rows[i] = PolicyRow{
			Name: v.Name, URL: present.PolicyURL(v.Name), Needs: listNeeds(v.Spec), Badges: listPolicyBadges(v.Spec, reviewers), Users: linkUsers(users[v.Name]),
			At: v.ChangedAt, By: present.PersonName(v.ChangedBy, names),
		}
	}
	return rows, nil
}

// listNeeds returns the alternatives of a policy in their plain form.
func listNeeds(spec *policy.Spec) []string {
	return strings.Split(policy.FormatAlternatives(spec.Any), "\n")
}

func listPolicyBadges(spec *policy.Spec, reviewers []policy.Voter) []view.Badge {
	if spec.IsMet(reviewers) {
		return nil
	}
	return []view.Badge{{Word: text.PoliciesUnmeetable(), Icon: "high", Level: view.Warn, Note: text.PoliciesUnmeetableMeaning()}}
}

// readReviewers returns all people who can decide, as voters.
func (h *Handler) readReviewers(ctx context.Context) ([]policy.Voter, error) {
	eligible, err := h.identity.Reviewers(ctx)
	if err != nil {
		return nil, err
	}
	ids := make([]uuid.UUID, len(eligible))
	for i := range eligible {
		ids[i] = eligible[i].Person
	}
	return call.ReadVoters(ctx, h.calls.Pool, ids...)
}

// nameChangers returns the names of those who made the versions.
func (h *Handler) nameChangers(ctx context.Context, versions []agent.PolicyVersion) (map[uuid.UUID]string, error) {
	people := make([]uuid.UUID, len(versions))
	for i := range versions {
		people[i] = versions[i].ChangedBy
	}
	return h.Names(ctx, people...)
}

// linkUsers returns links to what refers to a policy.
func linkUsers(users []agent.PolicyUser) []view.Crumb {
	links := make([]view.Crumb, len(users))
	for i, user := range users {
		links[i] = view.Crumb{Word: nameUser(user), URL: present.SkillURL(user.SkillID)}
		switch {
		case user.Rule != "":
			links[i].URL = present.RuleURL(user.Rule)
		case user.Tool != "":
			links[i].URL = present.ToolURL(user.SkillID, user.Tool)
		}
	}
	return links
}

func nameUser(user agent.PolicyUser) text.Message {
	switch {
	case user.Rule != "":
		return text.PoliciesUsedByRule(user.Rule)
	case user.Tool != "":
		return text.PoliciesUsedByTool(user.Tool, user.Skill)
	}
	return text.PoliciesUsedBySkill(user.Skill)
}

// ShowPolicy shows a policy with its versions, also if it was deleted.
func (h *Handler) ShowPolicy(w http.ResponseWriter, r *http.Request) {
	var notice *view.Notice
	if r.URL.Query().Get("done") == "saved" {
		notice = &view.Notice{Level: view.Good, Title: text.PoliciesDoneSaved(), Text: text.PoliciesDoneSavedNext()}
	}
	h.answerWithPolicy(w, r, http.StatusOK, notice)
}

func (h *Handler) answerWithPolicy(w http.ResponseWriter, r *http.Request, status int, notice *view.Notice) {
	v, err := h.readPolicy(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	v.Notice = notice
	pulse, err := h.calls.ReadPulse(r.Context())
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	h.Render(w, r, status, PolicyPage(h.Page(r, view.SectionPolicies, text.PoliciesPageOf(view.Printable(v.Name)), pulse), v))
}

func (h *Handler) readPolicy(r *http.Request) (Policy, error) {
	versions, err := h.agents.PolicyHistory(r.Context(), r.PathValue("name"))
	if err != nil {
		return Policy{}, err
	}
	names, err := h.nameChangers(r.Context(), versions)
	if err != nil {
		return Policy{}, err
	}
	v := presentPolicy(versions, names, shell.MayEdit(r))
	if v.Deleted {
		return v, nil
	}
	reviewers, err := h.readReviewers(r.Context())
	if err != nil {
		return v, err
	}
	v.Unmeetable = !versions[0].Spec.IsMet(reviewers)
	users, err := h.agents.FindPolicyUsers(r.Context())
	v.Users = linkUsers(users[v.Name])
	return v, err
}

// presentPolicy presents a policy by its versions, the newest first.
func presentPolicy(versions []agent.PolicyVersion, names map[uuid.UUID]string, mayEdit bool) Policy {
	newest := &versions[0]
	v := Policy{Name: newest.Name, URL: present.PolicyURL(newest.Name), MayEdit: mayEdit, Deleted: newest.Spec == nil}
	if spec := newest.Spec; spec != nil {
		v.Needs = listNeeds(spec)
		v.Facts = []view.Fact{{Name: text.PoliciesRejections(), Text: text.Number(policy.CountRejections([]policy.Policy{{Spec: *spec}}))}}
		for _, one := range []struct {
			name  text.Message
			value *duration.Text
		}{{text.PoliciesTimeout(), spec.ApprovalTimeout}, {text.PoliciesValidity(), spec.ApprovalValidity}} {
			if one.value != nil {
				v.Facts = append(v.Facts, view.Fact{Name: one.name, Text: text.Literal(one.value.String())})
			}
		}
		if spec.BreakGlass {
			v.Facts = append(v.Facts, view.Fact{Name: text.PoliciesBreakGlass(), Text: text.AgentYes()})
		}
		v.Facts = append(v.Facts, view.Fact{Name: text.RulesRevision(), Text: text.Literal(formatRevision(newest.Revision))})
	}
	for i := range versions {
		one := Version{Revision: formatRevision(versions[i].Revision), At: versions[i].ChangedAt, By: present.PersonName(versions[i].ChangedBy, names)}
		before := &policy.Spec{}
		if i+1 < len(versions) && versions[i+1].Spec != nil {
			before = versions[i+1].Spec
		} else {
			one.Event = text.PoliciesFirstVersion()
		}
		if versions[i].Spec == nil {
			one.Event = text.PoliciesRemovedVersion()
		} else if diff, err := hostile.ReadDiff(encodePolicy(before), encodePolicy(versions[i].Spec), hostile.Limits{}); err == nil {
			one.Diff = &diff
		}
		if mayEdit && i > 0 && versions[i].Spec != nil {
			one.Restore = v.URL + "/edit?version=" + one.Revision
		}
		v.Versions = append(v.Versions, one)
	}
	return v
}

// encodePolicy returns the fields of a policy that differ from version to version.
func encodePolicy(spec *policy.Spec) []byte {
	shown := struct {
		Any              []string       `json:"any,omitempty"`
		Rejections       int            `json:"rejections,omitempty"`
		ApprovalTimeout  *duration.Text `json:"approval_timeout,omitempty"`
		ApprovalValidity *duration.Text `json:"approval_validity,omitempty"`
		BreakGlass       bool           `json:"break_glass,omitempty"`
	}{nil, spec.Rejections, spec.ApprovalTimeout, spec.ApprovalValidity, spec.BreakGlass}
	if len(spec.Any) > 0 {
		shown.Any = listNeeds(spec)
	}
	return encodeFields(shown)
}

// DeletePolicy deletes a policy that nothing uses. Its versions are kept.
func (h *Handler) DeletePolicy(w http.ResponseWriter, r *http.Request) {
	err := h.agents.DeletePolicy(r.Context(), shell.Actor(r), r.PathValue("name"))
	if used, ok := errors.AsType[*agent.InUseError](err); ok {
		users := make([]text.Message, len(used.By))
		for i, user := range used.By {
			users[i] = nameUser(user)
		}
		h.answerWithPolicy(w, r, http.StatusConflict, &view.Notice{
			Level: view.Danger, Title: text.PoliciesNotDeleted(), Text: text.PoliciesNotDeletedHelp(text.Join(", ", users...)),
		})
		return
	}
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	shell.RedirectDone(w, r, policiesURL, shell.PolicyDeleted)
}

// policyForm is the form of a policy.
type policyForm struct {
	of                            string // the name of the policy that is edited; empty: a new one
	name, any                     string
	rejections, timeout, validity string
	breakGlass                    bool
	revision                      string       // of the policy that is edited
	note                          text.Message // beside the button
}

func readPolicyForm(r *http.Request, of string) *policyForm {
	f := &policyForm{
		of: of, name: of, any: shell.Clean(shell.Text(r, "any")), rejections: shell.Clean(shell.Line(r, "rejections")), breakGlass: shell.Ticked(r, "break_glass"),
		timeout: shell.Clean(shell.Line(r, "approval_timeout")), validity: shell.Clean(shell.Line(r, "approval_validity")), revision: r.PostFormValue("revision"),
	}
	if of == "" {
		f.name = shell.Clean(shell.Line(r, "name"))
	}
	return f
}

func (f *policyForm) fill(spec *policy.Spec) {
	f.any, f.breakGlass, f.rejections, f.timeout, f.validity = policy.FormatAlternatives(spec.Any), spec.BreakGlass, "", "", ""
	if spec.Rejections > 0 {
		f.rejections = formatRevision(int64(spec.Rejections))
	}
	if spec.ApprovalTimeout != nil {
		f.timeout = spec.ApprovalTimeout.String()
	}
	if spec.ApprovalValidity != nil {
		f.validity = spec.ApprovalValidity.String()
	}
}

// makeSpec returns the policy of the form.
func (f *policyForm) makeSpec(wrong *shell.Faults) policy.Spec {
	alternatives, invalid := policy.ParseAlternatives(f.any)
	*wrong = append(*wrong, invalid...)
	spec := policy.Spec{Name: f.name, Any: alternatives, Rejections: wrong.Number("rejections", f.rejections), BreakGlass: f.breakGlass}
	if f.timeout != "" {
		spec.ApprovalTimeout = wrong.Duration("approval_timeout", f.timeout)
	}
	if f.validity != "" {
		spec.ApprovalValidity = wrong.Duration("approval_validity", f.validity)
	}
	return spec
}

// listParts returns the parts of the form.
func (f *policyForm) listParts() []view.FormPart {
	who := view.FormPart{Title: text.PoliciesPolicy()}
	if f.of == "" {
		who.Fields = append(who.Fields, view.Field{
			Name: "name", Label: text.RulesName(), Kind: view.FieldLine, Value: f.name, Required: true, Code: true, Example: "two-of-finance", Hint: text.RulesNameHint(),
		})
	}
	who.Fields = append(who.Fields, view.Field{
		Name: "any", Label: text.PoliciesWho(), Kind: view.FieldArea, Value: f.any, Required: true, Code: true, Rows: 4,
		Example: "2 of finance, 1 of compliance\n1 of cfo@example.com", Hint: text.PoliciesWhoHint(),
	})
	return []view.FormPart{who, {Title: text.PoliciesConditions(), Fields: []view.Field{
		{Name: "rejections", Label: text.PoliciesRejections(), Kind: view.FieldLine, Value: f.rejections, Code: true, Hint: text.PoliciesRejectionsHint()},
		{Name: "approval_timeout", Label: text.PoliciesTimeout(), Kind: view.FieldLine, Value: f.timeout, Code: true, Hint: text.PoliciesTimeoutHint()},
		{Name: "approval_validity", Label: text.PoliciesValidity(), Kind: view.FieldLine, Value: f.validity, Code: true, Hint: text.PoliciesValidityHint()},
		{Name: "break_glass", Label: text.PoliciesBreakGlass(), Kind: view.FieldCheck, On: f.breakGlass, Hint: text.PoliciesBreakGlassHint()},
	}}}
}

// answerWithPolicyForm answers with the form of a policy. now, if not nil, is what another operator saved meanwhile.
func (h *Handler) answerWithPolicyForm(w http.ResponseWriter, r *http.Request, status int, f *policyForm, wrong shell.Faults, now *policyForm) {
	form := view.Form{
		Name: "policy-form", Action: "/policies/new", Send: text.RulesCreateNow(), Cancel: policiesURL, Revision: f.revision, Note: f.note, Parts: f.listParts(),
	}
	crumbs, title := []view.Crumb{{URL: policiesURL, Word: text.PoliciesTitle()}, {Word: text.PoliciesCreate()}}, text.PoliciesCreate()
	if f.of != "" {
		base := present.PolicyURL(f.of)
		form.Action, form.Send, form.Cancel = base+"/edit", text.RulesSave(), base
		crumbs = []view.Crumb{{URL: policiesURL, Word: text.PoliciesTitle()}, {URL: base, Word: text.Literal(f.of)}, {Word: text.RulesEdit()}}
		title = text.RulesEditOf(f.of)
	}
	wrong.ShowIn(&form, false)
	if now != nil {
		shell.ShowConflict(&form, now.listParts(), false)
	}
	h.AnswerWithForm(w, r, status, view.SectionPolicies, crumbs, title, form)
}

// NewPolicy asks for a new policy.
func (h *Handler) NewPolicy(w http.ResponseWriter, r *http.Request) {
	h.answerWithPolicyForm(w, r, http.StatusOK, &policyForm{}, nil, nil)
}

// CreatePolicy creates a policy.
func (h *Handler) CreatePolicy(w http.ResponseWriter, r *http.Request) {
	f := readPolicyForm(r, "")
	h.submitPolicy(w, r, f, new(int64), func(status int, wrong shell.Faults) { h.answerWithPolicyForm(w, r, status, f, wrong, nil) })
}

// submitPolicy saves a form. revision is that of [agent.Service.SetPolicy].
func (h *Handler) submitPolicy(w http.ResponseWriter, r *http.Request, f *policyForm, revision *int64, again func(int, shell.Faults)) {
	var wrong shell.Faults
	spec := f.makeSpec(&wrong)
	if slices.ContainsFunc(wrong, isAboutLines) {
		spec.Any = []policy.Alternative{{All: []policy.Line{{Count: 1}}}} // the lines that could be read say nothing
	}
	h.Submit(w, r, wrong, func(known shell.Faults) (string, error) {
		set, err := h.agents.SetPolicy(r.Context(), shell.Actor(r), spec, revision, known...)
		if f.of == "" && errors.Is(err, agent.ErrChanged) {
			err = agent.ErrExists
		}
		return present.PolicyURL(set.Name) + "?done=saved", err
	}, func(status int, wrong shell.Faults) {
		for i := range wrong {
			nameLine(&wrong[i])
		}
		again(status, wrong)
	})
}

// readPolicyVersions returns the versions of the policy that the request's path names, and its form.
func (h *Handler) readPolicyVersions(r *http.Request) ([]agent.PolicyVersion, *policyForm, error) {
	versions, err := h.agents.PolicyHistory(r.Context(), r.PathValue("name"))
	if err != nil {
		return nil, nil, err
	}
	f := &policyForm{of: versions[0].Name, name: versions[0].Name, revision: shell.RevisionText(0)}
	if versions[0].Spec != nil {
		f.fill(versions[0].Spec)
		f.revision = shell.RevisionText(versions[0].Revision)
	}
	return versions, f, nil
}

// EditPolicy asks for changes of a policy. With a version in its address, the form has the values of that version.
func (h *Handler) EditPolicy(w http.ResponseWriter, r *http.Request) {
	versions, f, err := h.readPolicyVersions(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	wanted := r.URL.Query().Get("version")
	at := slices.IndexFunc(versions, func(v agent.PolicyVersion) bool {
		return v.Spec != nil && (wanted == "" || formatRevision(v.Revision) == wanted)
	})
	if at < 0 {
		h.Fail(w, r, agent.ErrNotFound)
		return
	}
	if f.fill(versions[at].Spec); at > 0 {
		f.note = text.RulesRestoreNote(formatRevision(versions[at].Revision))
	}
	h.answerWithPolicyForm(w, r, http.StatusOK, f, nil, nil)
}

// SavePolicy changes a policy, unless another operator has changed it since the form was shown.
func (h *Handler) SavePolicy(w http.ResponseWriter, r *http.Request) {
	_, now, err := h.readPolicyVersions(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	f := readPolicyForm(r, now.of)
	h.submitPolicy(w, r, f, shell.RevisionOf(r), func(status int, wrong shell.Faults) {
		if status != http.StatusConflict {
			h.answerWithPolicyForm(w, r, status, f, wrong, nil)
			return
		}
		if _, now, err = h.readPolicyVersions(r); err != nil { // it has changed since it was read
			h.Fail(w, r, err)
			return
		}
		f.revision = now.revision
		h.answerWithPolicyForm(w, r, status, f, wrong, now)
	})
}
