package ui

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/httptool/setting"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/view"
)

// Adding an HTTP API takes several pages. What was said on them is a draft of the registry's, its secrets sealed, that only this person sees; no agent has to do
// with it before it is saved as a skill.

func (u *UI) importRoutes() []Route {
	return []Route{
		{"GET /imports/new", operators(), u.newImport},
		{"POST /imports/new", operators(), u.startImport},
		{"GET /imports/{id}", operators(), u.showOperations},
		{"POST /imports/{id}", operators(), u.chooseOperations},
		{"GET /imports/{id}/credentials", operators(), u.askCredentials},
		{"POST /imports/{id}/credentials", operators(), u.keepCredentials},
		{"GET /imports/{id}/try", operators(), u.showTrial},
		{"POST /imports/{id}/try", operators(), u.tryImport},
		{"POST /imports/{id}/save", operators(), u.saveImport},
		{"POST /imports/{id}/drop", operators(), u.dropImport},
	}
}

// importing is a draft on its way to a skill.
type importing struct {
	*agent.Draft
	notes  importNotes
	person uuid.UUID
}

// importNotes are what the pages need besides the skill.
type importNotes struct {
	Title  string   `json:"title"`
	All    bool     `json:"all"` // of the operations
	Tags   []string `json:"tags"`
	Chosen []string `json:"chosen"` // names of operations
}

func importURL(id uuid.UUID) string { return "/imports/" + id.String() }

// importOf is the draft that the request's path names.
func (u *UI) importOf(r *http.Request) (*importing, error) {
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		return nil, agent.ErrNotFound
	}
	access, _ := login.Access(r.Context())
	i := &importing{person: access.Person.ID}
	if i.Draft, err = u.cfg.Agents.Draft(r.Context(), i.person, id); err != nil {
		return nil, err
	}
	if len(i.Notes) > 0 {
		err = json.Unmarshal(i.Notes, &i.notes)
	}
	return i, err
}

func (u *UI) keepImport(r *http.Request, i *importing) error {
	var err error
	if i.Notes, err = json.Marshal(i.notes); err != nil {
		return err
	}
	return u.cfg.Agents.SaveDraft(r.Context(), i.person, i.Draft)
}

// The steps of adding an HTTP API.
const (
	stepDocument = iota
	stepOperations
	stepCredentials
	stepTry
)

func importSteps(i *importing, now int) []view.Step {
	steps := []view.Step{{Word: "1. The document"}, {Word: "2. Operations"}, {Word: "3. Credentials"}, {Word: "4. Try and save"}}
	steps[now].Now = true
	if i == nil {
		return steps
	}
	urls := []string{"", importURL(i.ID), importURL(i.ID) + "/credentials", importURL(i.ID) + "/try"}
	if i.Spec.Transport == tool.HTTPAPI {
		urls[stepOperations] = ""
	}
	for n := range now {
		steps[n].URL = urls[n]
	}
	return steps
}

func importCrumbs(i *importing, now int) []view.Crumb {
	crumbs := []view.Crumb{{URL: "/skills", Word: "Skills"}}
	for _, s := range importSteps(i, now)[:now+1] {
		crumbs = append(crumbs, view.Crumb{URL: s.URL, Word: s.Word})
	}
	return crumbs
}

// newImport asks for a document.
func (u *UI) newImport(w http.ResponseWriter, r *http.Request) {
	f := emptySkillForm()
	u.answerWithNewImport(w, r, http.StatusOK, &f, nil)
}

func (u *UI) answerWithNewImport(w http.ResponseWriter, r *http.Request, status int, f *skillForm, wrong faults) {
	name := view.FormPart{Title: "Skill", Fields: []view.Field{{
		Name: "name", Label: "Name", Kind: view.FieldLine, Value: f.name, Required: true, Code: true, Example: "shop",
		Hint: "Agents see its tools as name__tool. a–z, 0–9, - and _; it cannot be changed later.",
	}}}
	document := view.FormPart{Title: "OpenAPI document", Words: "One of these. A URL is read again whenever the tools are listed; a document that you give stays as it is.", Fields: append([]view.Field{{
		Name: "spec", Label: "URL", Kind: view.FieldLine, Value: f.api.spec, Code: true, Example: "https://api.example.com/openapi.json",
	}}, f.api.documentFields()...)}
	byHand := view.FormPart{Title: "No document? Write the endpoints down", Folded: true, Fields: []view.Field{f.api.baseField(tool.OpenAPI), f.api.endpointsField()}}
	form := view.Form{
		Name: "import-form", Action: "/imports/new", Send: "Continue", Cancel: "/skills", Files: true,
		Parts: []view.FormPart{name, document, byHand}, Note: "Nothing is registered before the last step.",
	}
	wrong.tell(&form, false)
	if len(wrong) > 0 && strings.TrimSpace(f.api.document) != "" {
		form.Problems = append(form.Problems, view.FormProblem{Text: "The document is not sent back to the browser: give it again."})
	}
	u.answerWithForm(w, r, status, view.SectionSkills, importCrumbs(nil, stepDocument), "Add an HTTP API", form)
}

// startImport reads the document, and goes on with what it offers.
func (u *UI) startImport(w http.ResponseWriter, r *http.Request) {
	f := readSkillForm(r, skillForm{transport: string(tool.OpenAPI)})
	access, _ := login.Access(r.Context())
	i := &importing{person: access.Person.ID, Draft: &agent.Draft{}, notes: importNotes{All: true}}
	var wrong faults
	i.Spec = f.importSpec(&wrong)
	next := ""
	if i.Spec.Transport == tool.HTTPAPI {
		if err := u.cfg.Agents.CheckSkill(i.Spec); err != nil {
			found, _ := faultsOf(err)
			wrong = append(wrong, found...)
		}
		i.notes.Title, next = i.Spec.Name, "/credentials"
	} else {
		wrong = append(wrong, u.checkName(&i.Spec)...)
		found, err := u.cfg.Agents.Examine(r.Context(), i.Spec.Spec, i.Spec.Document)
		if problems, ok := faultsOf(err); ok {
			wrong = append(wrong, problems...)
		} else if err != nil {
			u.fail(w, r, err)
			return
		}
		if found != nil {
			i.notes.Title, i.Spec.BaseURL = cmp.Or(found.Title, i.Spec.Name), found.BaseURL
			i.Spec.Auth = firstAuth(found)
		}
	}
	if _, err := u.cfg.Agents.SkillByName(r.Context(), i.Spec.Name); err == nil {
		wrong.add("name", "is taken by another skill")
	}
	if len(wrong) > 0 {
		u.answerWithNewImport(w, r, http.StatusUnprocessableEntity, &f, wrong)
		return
	}
	if err := u.keepImport(r, i); err != nil {
		u.fail(w, r, err)
		return
	}
	http.Redirect(w, r, importURL(i.ID)+next, http.StatusSeeOther)
}

// importSpec is what the first page says of a skill.
func (f *skillForm) importSpec(wrong *faults) agent.SkillSpec {
	spec := agent.SkillSpec{Name: f.name, Transport: tool.OpenAPI, APISpec: agent.APISpec{Spec: f.api.spec}}
	if strings.TrimSpace(f.api.document) != "" {
		spec.Document = f.api.document
	}
	switch {
	case strings.TrimSpace(f.api.endpoints) == "":
	case spec.Spec+spec.Document != "":
		wrong.add("endpoints", "must be left out where there is a document: its operations are the tools")
	default:
		spec.Transport, spec.BaseURL, spec.Endpoints = tool.HTTPAPI, f.api.baseURL, wrong.endpoints("endpoints", f.api.endpoints)
	}
	return spec
}

// checkName finds what is wrong with the name, which no document is needed for.
func (u *UI) checkName(spec *agent.SkillSpec) (wrong faults) {
	found, _ := faultsOf(u.cfg.Agents.CheckSkill(agent.SkillSpec{Name: spec.Name, Transport: tool.HTTP, URL: "http://localhost/"}))
	return slices.DeleteFunc(found, func(p agent.FieldProblem) bool { return p.Path != "name" })
}

// firstAuth is the first way of a document to authenticate that takes no more than a secret.
func firstAuth(found *setting.Examination) *agent.APIAuthSpec {
	for _, scheme := range found.SecuritySchemes {
		if a := scheme.Auth(); a != nil {
			return &agent.APIAuthSpec{Type: a.Type, In: a.In, Name: a.Name, Username: a.Username}
		}
	}
	return nil
}

// dropImport forgets what was said so far.
func (u *UI) dropImport(w http.ResponseWriter, r *http.Request) {
	i, err := u.importOf(r)
	if err == nil {
		err = u.cfg.Agents.DropDraft(r.Context(), i.person, i.ID)
	}
	if err != nil {
		u.fail(w, r, err)
		return
	}
	http.Redirect(w, r, "/skills", http.StatusSeeOther)
}

// saveImport registers the skill.
func (u *UI) saveImport(w http.ResponseWriter, r *http.Request) {
	i, err := u.importOf(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	if i.offersNothing() {
		http.Redirect(w, r, importURL(i.ID), http.StatusSeeOther)
		return
	}
	made, err := u.cfg.Agents.CreateSkill(r.Context(), actor(r), i.Spec)
	if wrong, ok := faultsOf(err); ok {
		var problems []view.FormProblem
		for _, one := range wrong {
			problems = append(problems, view.FormProblem{Text: one.Path + ": " + one.Message})
		}
		u.answerWithTrial(w, r, http.StatusUnprocessableEntity, i, &view.ImportTrial{Problems: problems})
		return
	}
	if err == nil {
		err = u.cfg.Agents.DropDraft(r.Context(), i.person, i.ID)
	}
	if err != nil {
		u.fail(w, r, err)
		return
	}
	http.Redirect(w, r, skillURL(made.ID)+"?done=registered", http.StatusSeeOther)
}

// offersNothing reports whether no operation is chosen: without a filter, which would mean all of them.
func (i *importing) offersNothing() bool {
	return i.Spec.Transport == tool.OpenAPI && !i.notes.All && len(i.Spec.Include) == 0
}

// examined are the last documents that were looked at, so that not each page has them read again.
type examined struct {
	mu    sync.Mutex
	order []uuid.UUID
	found map[uuid.UUID]*setting.Examination // by draft
}

const maxExamined = 4

// examination is what the document of a draft offers.
func (u *UI) examination(r *http.Request, i *importing) (*setting.Examination, error) {
	e := &u.examined
	e.mu.Lock()
	found := e.found[i.ID]
	e.mu.Unlock()
	if found != nil {
		return found, nil
	}
	found, err := u.cfg.Agents.Examine(r.Context(), i.Spec.Spec, i.Spec.Document)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.found == nil {
		e.found = map[uuid.UUID]*setting.Examination{}
	}
	if e.found[i.ID] == nil {
		e.order = append(e.order, i.ID)
	}
	e.found[i.ID] = found
	if len(e.order) > maxExamined {
		delete(e.found, e.order[0])
		e.order = e.order[1:]
	}
	return found, nil
}

// notExamined says that a document cannot be read any more, as when its server is away.
func (u *UI) notExamined(w http.ResponseWriter, r *http.Request, i *importing, err error) {
	invalid, ok := errors.AsType[*agent.InvalidError](err)
	if !ok {
		u.fail(w, r, err)
		return
	}
	f := skillForm{name: i.Spec.Name, api: apiForm{spec: i.Spec.Spec}}
	u.answerWithNewImport(w, r, http.StatusUnprocessableEntity, &f, invalid.Problems)
}
