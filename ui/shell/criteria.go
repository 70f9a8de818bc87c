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

// Cursor reads the ID before which a page starts. An invalid ID is a *[fault.InvalidError].
func Cursor(r *http.Request) (uuid.UUID, error) {
	var reader query.Reader
	id := reader.ID(PageParameter, r.URL.Query().Get(PageParameter))
	return id, reader.Err()
}

const suggested = 200 // names that a form suggests

// Criteria holds the search criteria in the address of a page.
type Criteria struct {
	Path   string
	Values url.Values // without empty ones and [PageParameter]
	Form   view.Search
	Zone   *time.Location // of days and times without an offset
	now    time.Time
	Err    error
}

// PageParameter is the cursor in the address of a page.
const PageParameter = "before"

// CriteriaOf reads the named criteria of a request.
func CriteriaOf(r *http.Request, names ...string) *Criteria {
	c := &Criteria{Path: r.URL.Path, Values: url.Values{}, Form: view.Search{URL: r.URL.Path}, Zone: view.Zone(r.Context()), now: view.Now(r.Context())}
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

// Field adds a field with its current value.
func (c *Criteria) Field(f view.Criterion) {
	f.Value = c.Get(f.Name)
	c.Form.Fields = append(c.Form.Fields, f)
}

// Times adds the fields of a time range in the reader's zone. Links have its valid times with their offset.
func (c *Criteria) Times() {
	from, before := text.SearchFromLocal(), text.SearchBeforeLocal()
	if c.Zone == time.UTC {
		from, before = text.SearchFrom(), text.SearchBefore()
	}
	c.timeField("from", from, false)
	c.timeField("to", before, true)
	c.addPresets(c.now)
}

// presetDays is the number of days that have a link of their own, before today.
const presetDays = 7

// addPresets adds links to the calls of today, of yesterday, of the last seven days, and of each day before yesterday by its name.
func (c *Criteria) addPresets(now time.Time) {
	year, month, day := now.In(c.Zone).Date()
	midnight := func(days int) time.Time { return time.Date(year, month, day+days, 0, 0, 0, 0, c.Zone) }
	c.preset(text.SearchToday(), midnight(0), midnight(1))
	c.preset(text.SearchYesterday(), midnight(-1), midnight(0))
	c.preset(text.SearchLastWeek(), midnight(-presetDays+1), midnight(1))
	names := [7]text.Message{
		text.SearchSunday(), text.SearchMonday(), text.SearchTuesday(), text.SearchWednesday(), text.SearchThursday(), text.SearchFriday(), text.SearchSaturday(),
	}
	for days := -2; days >= -presetDays; days-- {
		from := midnight(days)
		c.preset(names[from.Weekday()], from, midnight(days+1))
	}
}

func (c *Criteria) preset(label text.Message, from, to time.Time) {
	first, end := from.Format(time.RFC3339), to.Format(time.RFC3339)
	c.Form.Presets = append(c.Form.Presets, view.Tab{
		Word: label, URL: c.URL(c.Path, "from", first, "to", end), Current: c.Get("from") == first && c.Get("to") == end,
	})
}

func (c *Criteria) timeField(name string, label text.Message, end bool) {
	value := c.Get(name)
	if t, err := query.ParseTime(value, end, c.Zone); err == nil && !t.IsZero() {
		value = t.In(c.Zone).Format("2006-01-02T15:04:05")
		c.Values.Set(name, t.In(c.Zone).Format(time.RFC3339))
	}
	c.Form.Fields = append(c.Form.Fields, view.Criterion{Name: name, Label: label, Kind: "datetime-local", Value: value})
}

// URL returns the address of a path with the criteria and more parameters, given in pairs.
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

// Pages returns the links to the newest and to older results.
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

// Refused shows an error about criteria in the form. It reports false for any other error.
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
		if !c.markInvalid(problem) {
			c.Form.Problem = text.FormUnknownInvalid(problem.Name, text.Fault(problem.Expected))
		}
	}
	return true
}

func (c *Criteria) markInvalid(problem fault.Field) bool {
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

// Status returns 422 if the criteria are invalid, else 200.
func (c *Criteria) Status() int {
	if c.Err != nil {
		return http.StatusUnprocessableEntity
	}
	return http.StatusOK
}

// TimeOf returns the creation time in an ID of version 7.
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

// PeopleNames returns the names of members for operators, and none for others, who may not list members.
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
