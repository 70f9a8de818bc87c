package skills

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/httptool/setting"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/runtime/trial"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// importing is the draft of a skill.
type importing struct {
	*trial.Draft
	notes  importNotes
	person uuid.UUID
}

// importNotes has the state of the pages beside the skill.
type importNotes struct {
	Title  string   `json:"title"`
	All    bool     `json:"all"` // all operations
	Tags   []string `json:"tags"`
	Chosen []string `json:"chosen"` // names of operations
}

func importURL(id uuid.UUID) string { return "/imports/" + id.String() }

// importOf returns the draft of the request's path.
func (h *ImportHandler) importOf(r *http.Request) (*importing, error) {
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		return nil, agent.ErrNotFound
	}
	access, _ := login.Access(r.Context())
	i := &importing{person: access.Person.ID}
	if i.Draft, err = h.trials.Draft(r.Context(), i.person, id); err != nil {
		return nil, err
	}
	if len(i.Notes) > 0 {
		err = json.Unmarshal(i.Notes, &i.notes)
	}
	return i, err
}

func (h *ImportHandler) keepImport(r *http.Request, i *importing) error {
	var err error
	if i.Notes, err = json.Marshal(i.notes); err != nil {
		return err
	}
	return h.trials.SaveDraft(r.Context(), i.person, i.Draft)
}

// The steps of adding an HTTP API.
const (
	stepDocument = iota
	stepOperations
	stepCredentials
	stepTry
)

func presentSteps(i *importing, now int) []Step {
	steps := []Step{{Word: text.SkillImportStepDocument()}, {Word: text.SkillImportStepOperations()}, {Word: text.SkillImportStepCredentials()}, {Word: text.SkillImportStepTry()}}
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
	crumbs := []view.Crumb{{URL: "/skills", Word: text.SkillTitle()}}
	for _, s := range presentSteps(i, now)[:now+1] {
		crumbs = append(crumbs, view.Crumb{URL: s.URL, Word: s.Word})
	}
	return crumbs
}

// NewImport shows the form for a document.
func (h *ImportHandler) NewImport(w http.ResponseWriter, r *http.Request) {
	f := emptySkillForm()
	h.answerWithNewImport(w, r, http.StatusOK, &f, nil)
}

func (h *ImportHandler) answerWithNewImport(w http.ResponseWriter, r *http.Request, status int, f *skillForm, wrong shell.Faults) {
	name := view.FormPart{Title: text.SkillImportSkill(), Fields: []view.Field{{
		Name: "name", Label: text.SkillFormName(), Kind: view.FieldLine, Value: f.name, Required: true, Code: true, Example: "shop",
		Hint: text.SkillFormNameHint(),
	}}}
	document := view.FormPart{Title: text.SkillImportDocument(), Words: text.SkillImportDocumentNote(), Fields: append([]view.Field{{
		Name: "spec", Label: text.SkillFormURL(), Kind: view.FieldLine, Value: f.api.spec, Code: true, Example: "https://api.example.com/openapi.json",
	}}, f.api.documentFields()...)}
	byHand := view.FormPart{Title: text.SkillImportEndpoints(), Folded: true, Fields: []view.Field{f.api.baseField(tool.OpenAPI), f.api.endpointsField()}}
	form := view.Form{
		Name: "import-form", Action: "/imports/new", Send: text.SkillImportContinue(), Cancel: "/skills", Files: true,
		Parts: []view.FormPart{name, document, byHand}, Note: text.SkillImportDocumentFootnote(),
	}
	wrong.ShowIn(&form, false)
	if len(wrong) > 0 && strings.TrimSpace(f.api.document) != "" {
		form.Problems = append(form.Problems, view.FormProblem{Text: text.SkillImportDocumentLost()})
	}
	h.AnswerWithForm(w, r, status, view.SectionSkills, importCrumbs(nil, stepDocument), text.SkillImportTitle(), form)
}

// StartImport reads the document and continues with its operations.
func (h *ImportHandler) StartImport(w http.ResponseWriter, r *http.Request) {
	f := readSkillForm(r, skillForm{transport: string(tool.OpenAPI)})
	access, _ := login.Access(r.Context())
	i := &importing{person: access.Person.ID, Draft: &trial.Draft{}, notes: importNotes{All: true}}
	var wrong shell.Faults
	i.Spec = f.importSpec(&wrong)
	next := ""
	if i.Spec.Transport == tool.HTTPAPI {
		if err := h.agents.CheckSkill(i.Spec); err != nil {
			found, _ := shell.FaultsOf(err)
			wrong = append(wrong, found...)
		}
		i.notes.Title, next = i.Spec.Name, "/credentials"
	} else {
		wrong = append(wrong, h.checkName(&i.Spec)...)
		found, err := h.trials.Examine(r.Context(), i.Spec.Spec, i.Spec.Document)
		if problems, ok := shell.FaultsOf(err); ok {
			wrong = append(wrong, problems...)
		} else if err != nil {
			h.Fail(w, r, err)
			return
		}
		if found != nil {
			i.notes.Title, i.Spec.BaseURL = cmp.Or(found.Title, i.Spec.Name), found.BaseURL
			i.Spec.Auth = firstAuth(found)
		}
	}
	if _, err := h.agents.SkillByName(r.Context(), i.Spec.Name); err == nil {
		wrong.Add("name", "is taken by another skill")
	}
	if len(wrong) > 0 {
		h.answerWithNewImport(w, r, http.StatusUnprocessableEntity, &f, wrong)
		return
	}
	if err := h.keepImport(r, i); err != nil {
		h.Fail(w, r, err)
		return
	}
	shell.Redirect(w, r, importURL(i.ID)+next)
}

// importSpec returns the settings of the first page.
func (f *skillForm) importSpec(wrong *shell.Faults) agent.SkillSpec {
	spec := agent.SkillSpec{Name: f.name, Transport: tool.OpenAPI, APISpec: agent.APISpec{Spec: f.api.spec}}
	if strings.TrimSpace(f.api.document) != "" {
		spec.Document = f.api.document
	}
	switch {
	case strings.TrimSpace(f.api.endpoints) == "":
	case spec.Spec+spec.Document != "":
		wrong.Add("endpoints", "must be empty if there is a document, whose operations are the tools")
	default:
		spec.Transport, spec.BaseURL, spec.Endpoints = tool.HTTPAPI, f.api.baseURL, readEndpoints(wrong, "endpoints", f.api.endpoints)
	}
	return spec
}

// checkName checks the name, which needs no document.
func (h *ImportHandler) checkName(spec *agent.SkillSpec) (wrong shell.Faults) {
	found, _ := shell.FaultsOf(h.agents.CheckSkill(agent.SkillSpec{Name: spec.Name, Transport: tool.HTTP, URL: "http://localhost/"}))
	return slices.DeleteFunc(found, func(p fault.Field) bool { return p.Name != "name" })
}

// firstAuth returns the first authentication scheme of a document that needs only a secret.
func firstAuth(found *setting.Examination) *agent.APIAuthSpec {
	for _, scheme := range found.SecuritySchemes {
		if a := scheme.Auth(); a != nil {
			return &agent.APIAuthSpec{Type: a.Type, In: a.In, Name: a.Name, Username: a.Username}
		}
	}
	return nil
}

// DropImport deletes the draft.
func (h *ImportHandler) DropImport(w http.ResponseWriter, r *http.Request) {
	i, err := h.importOf(r)
	if err == nil {
		err = h.trials.DeleteDraft(r.Context(), i.person, i.ID)
	}
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	shell.RedirectDone(w, r, "/skills", shell.ImportDiscarded)
}

// SaveImport registers the skill.
func (h *ImportHandler) SaveImport(w http.ResponseWriter, r *http.Request) {
	i, err := h.importOf(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	if i.offersNothing() {
		shell.Redirect(w, r, importURL(i.ID))
		return
	}
	made, err := h.agents.CreateSkill(r.Context(), shell.Actor(r), i.Spec)
	if wrong, ok := shell.FaultsOf(err); ok {
		var problems []view.FormProblem
		for _, one := range wrong {
			problems = append(problems, view.FormProblem{Text: text.FormUnknownInvalid(one.Name, text.Fault(one.Expected))})
		}
		h.answerWithTrial(w, r, http.StatusUnprocessableEntity, i, &ImportTrial{Problems: problems})
		return
	}
	if err == nil {
		err = h.trials.DeleteDraft(r.Context(), i.person, i.ID)
	}
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	shell.Redirect(w, r, present.SkillURL(made.ID)+"?done=registered")
}

// offersNothing reports whether no operation is chosen. Without a filter, the skill would have all of them.
func (i *importing) offersNothing() bool {
	return i.Spec.Transport == tool.OpenAPI && !i.notes.All && len(i.Spec.Include) == 0
}

// Examined caches the last documents, so that not every page reads them again.
type Examined struct {
	mu    sync.Mutex
	order []uuid.UUID
	found map[uuid.UUID]*setting.Examination // by draft
}

const maxExamined = 4

// examineDocument returns the content of a draft's document.
func (h *ImportHandler) examineDocument(r *http.Request, i *importing) (*setting.Examination, error) {
	e := &h.examined
	e.mu.Lock()
	found := e.found[i.ID]
	e.mu.Unlock()
	if found != nil {
		return found, nil
	}
	found, err := h.trials.Examine(r.Context(), i.Spec.Spec, i.Spec.Document)
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

// answerUnexamined shows the first page again if the document can no longer be read, for example because its server is unavailable.
func (h *ImportHandler) answerUnexamined(w http.ResponseWriter, r *http.Request, i *importing, err error) {
	invalid, ok := errors.AsType[*fault.InvalidError](err)
	if !ok {
		h.Fail(w, r, err)
		return
	}
	f := skillForm{name: i.Spec.Name, api: apiForm{spec: i.Spec.Spec}}
	h.answerWithNewImport(w, r, http.StatusUnprocessableEntity, &f, invalid.Fields)
}
