package shell

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/query"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call/history"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// maxSkillNames bounds how many skills a form offers.
const maxSkillNames = 1000

// Suggester reads the names that search forms suggest.
type Suggester struct {
	Agents   *agent.Service
	Identity *identity.Service
}

// SkillNames returns the names of skills.
func (h *Suggester) SkillNames(ctx context.Context) ([]string, error) {
	var names []string
	for after := ""; ; {
		skills, next, err := h.Agents.Skills(ctx, after, maxSkillNames)
		if err != nil {
			return nil, err
		}
		for i := range skills {
			names = append(names, skills[i].Name)
		}
		if after = next; after == "" || len(names) >= maxSkillNames {
			return names, nil
		}
	}
}

// Cursor reads from which id on a page is older; a *[fault.InvalidError] if it is none.
func Cursor(r *http.Request) (uuid.UUID, error) {
	var reader query.Reader
	id := reader.ID(PageParameter, r.URL.Query().Get(PageParameter))
	return id, reader.Err()
}

const suggested = 200 // names that a form suggests

// Criteria are a form's, as the address has them.
type Criteria struct {
	Path   string
	Values url.Values // those that are set, without what turns pages
	Form   view.Search
	Err    error
}

// PageParameter is the parameter of an address that turns pages.
const PageParameter = "before"

// CriteriaOf reads the named criteria of a request.
func CriteriaOf(r *http.Request, names ...string) *Criteria {
	c := &Criteria{Path: r.URL.Path, Values: url.Values{}, Form: view.Search{URL: r.URL.Path}}
	given := r.URL.Query()
	for _, name := range names {
		for _, value := range given[name] {
			if value != "" {
				c.Values.Add(name, value)
			}
		}
		if c.Values.Has(name) {
			c.Form.Chosen++
		}
	}
	return c
}

// Get returns the first value of a criterion.
func (c *Criteria) Get(name string) string { return c.Values.Get(name) }

// Field adds a field with what was typed.
func (c *Criteria) Field(f view.Criterion) {
	f.Value = c.Get(f.Name)
	c.Form.Fields = append(c.Form.Fields, f)
}

// Times adds the fields of a time from and to. What can be read is written as inputs of this kind take it.
func (c *Criteria) Times() {
	for name, end := range map[string]bool{"from": false, "to": true} {
		if t, err := query.ParseTime(c.Get(name), end); err == nil && !t.IsZero() {
			c.Values.Set(name, t.Format("2006-01-02T15:04:05"))
		}
	}
	c.Field(view.Criterion{Name: "from", Label: text.SearchFrom(), Kind: "datetime-local"})
	c.Field(view.Criterion{Name: "to", Label: text.SearchBefore(), Kind: "datetime-local"})
}

// URL is the page's address with these criteria, and further parameters in pairs.
func (c *Criteria) URL(path string, more ...string) string {
	values := maps.Clone(c.Values)
	for i := 0; i+1 < len(more); i += 2 {
		values.Set(more[i], more[i+1])
	}
	if len(values) == 0 {
		return path
	}
	return path + "?" + values.Encode()
}

// Pages are the ways to newer and older ones.
func (c *Criteria) Pages(first bool, next string, searched *time.Time) view.Pages {
	var p view.Pages
	if !first {
		p.Newest = c.URL(c.Path)
	}
	if next != "" {
		p.Older, p.Searched = c.URL(c.Path, PageParameter, next), searched
	}
	return p
}

// Refused shows what could not be read beside its field. It reports false for an error of another kind.
func (c *Criteria) Refused(err error) bool {
	if errors.Is(err, history.ErrTooBroad) {
		c.Form.Problem, c.Err = text.SearchTooBroad(), err
		return true
	}
	wrong, ok := errors.AsType[*fault.InvalidError](err)
	if !ok {
		return false
	}
	c.Err = err
	for _, problem := range wrong.Fields {
		if !c.blame(problem) {
			c.Form.Problem = text.FormUnknownInvalid(problem.Name, problem.Expected)
		}
	}
	return true
}

func (c *Criteria) blame(problem fault.Field) bool {
	if c.Form.Text != nil && c.Form.Text.Name == problem.Name {
		c.Form.Text.Error = text.Literal(problem.Expected)
		return true
	}
	at := slices.IndexFunc(c.Form.Fields, func(f view.Criterion) bool { return f.Name == problem.Name })
	if at >= 0 {
		c.Form.Fields[at].Error = text.Literal(problem.Expected)
	}
	return at >= 0
}

// Status is that of the page: 422 when the criteria could not be used.
func (c *Criteria) Status() int {
	if c.Err != nil {
		return http.StatusUnprocessableEntity
	}
	return http.StatusOK
}

// TimeOf is when what has an id of version 7 was made.
func TimeOf(id uuid.UUID) *time.Time {
	seconds, nanos := id.Time().UnixTime()
	t := time.Unix(seconds, nanos)
	return &t
}

// AgentNames returns the names of agents.
func (h *Suggester) AgentNames(ctx context.Context) ([]string, error) {
	agents, _, err := h.Agents.Agents(ctx, "", suggested)
	names := make([]string, len(agents))
	for i := range agents {
		names[i] = agents[i].Name
	}
	return names, err
}

// PeopleNames are suggested to operators only: who there is, is theirs to know.
func (h *Suggester) PeopleNames(ctx context.Context) ([]string, error) {
	if access, _ := login.Access(ctx); !access.Has(identity.Operator) {
		return nil, nil
	}
	people, _, err := h.Identity.Members(ctx, identity.MemberFilter{Limit: suggested})
	var names []string
	for i := range people {
		if !slices.Contains(names, people[i].Name) {
			names = append(names, people[i].Name)
		}
	}
	return names, err
}
