package ui

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/query"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/view"
)

const suggested = 200 // names that a form suggests

// criteria are a form's, as the address has them.
type criteria struct {
	path   string
	values url.Values // those that are set, without what turns pages
	form   view.Search
	err    error
}

const pageParameter = "before"

// criteriaOf reads the named criteria of a request.
func criteriaOf(r *http.Request, names ...string) *criteria {
	c := &criteria{path: r.URL.Path, values: url.Values{}, form: view.Search{URL: r.URL.Path}}
	given := r.URL.Query()
	for _, name := range names {
		for _, value := range given[name] {
			if value != "" {
				c.values.Add(name, value)
			}
		}
		if c.values.Has(name) {
			c.form.Chosen++
		}
	}
	return c
}

func (c *criteria) get(name string) string { return c.values.Get(name) }

// field adds a field with what was typed.
func (c *criteria) field(f view.Criterion) {
	f.Value = c.get(f.Name)
	c.form.Fields = append(c.form.Fields, f)
}

// times adds the fields of a time from and to. What can be read is written as inputs of this kind take it.
func (c *criteria) times() {
	for name, end := range map[string]bool{"from": false, "to": true} {
		if t, err := query.ParseTime(c.get(name), end); err == nil && !t.IsZero() {
			c.values.Set(name, t.Format("2006-01-02T15:04:05"))
		}
	}
	c.field(view.Criterion{Name: "from", Label: "From (UTC)", Kind: "datetime-local"})
	c.field(view.Criterion{Name: "to", Label: "Before (UTC)", Kind: "datetime-local"})
}

// url is the page's address with these criteria, and further parameters in pairs.
func (c *criteria) url(path string, more ...string) string {
	values := maps.Clone(c.values)
	for i := 0; i+1 < len(more); i += 2 {
		values.Set(more[i], more[i+1])
	}
	if len(values) == 0 {
		return path
	}
	return path + "?" + values.Encode()
}

// pages are the ways to newer and older ones.
func (c *criteria) pages(first bool, next string, searched *time.Time) view.Pages {
	var p view.Pages
	if !first {
		p.Newest = c.url(c.path)
	}
	if next != "" {
		p.Older, p.Searched = c.url(c.path, pageParameter, next), searched
	}
	return p
}

const tooBroad = "The search took too long. Narrow it, by time for example."

// refused shows what could not be read beside its field. It reports false for an error of another kind.
func (c *criteria) refused(err error) bool {
	if errors.Is(err, call.ErrSearchTooBroad) {
		c.form.Problem, c.err = tooBroad, err
		return true
	}
	wrong, ok := errors.AsType[*query.InvalidError](err)
	if !ok {
		return false
	}
	c.err = err
	for _, problem := range wrong.Fields {
		if !c.blame(problem) {
			c.form.Problem = problem.Field + ": " + problem.Expected
		}
	}
	return true
}

func (c *criteria) blame(problem query.Problem) bool {
	if c.form.Text != nil && c.form.Text.Name == problem.Field {
		c.form.Text.Error = problem.Expected
		return true
	}
	at := slices.IndexFunc(c.form.Fields, func(f view.Criterion) bool { return f.Name == problem.Field })
	if at >= 0 {
		c.form.Fields[at].Error = problem.Expected
	}
	return at >= 0
}

// status is that of the page: 422 when the criteria could not be used.
func (c *criteria) status() int {
	if c.err != nil {
		return http.StatusUnprocessableEntity
	}
	return http.StatusOK
}

// timeOf is when what has an id of version 7 was made.
func timeOf(id uuid.UUID) *time.Time {
	seconds, nanos := id.Time().UnixTime()
	t := time.Unix(seconds, nanos)
	return &t
}

func (u *UI) agentNames(ctx context.Context) ([]string, error) {
	agents, _, err := u.cfg.Agents.Agents(ctx, "", suggested)
	names := make([]string, len(agents))
	for i := range agents {
		names[i] = agents[i].Name
	}
	return names, err
}

// peopleNames are suggested to operators only: who there is, is theirs to know.
func (u *UI) peopleNames(ctx context.Context) ([]string, error) {
	if access, _ := login.Access(ctx); !access.Has(identity.Operator) {
		return nil, nil
	}
	people, _, err := u.cfg.Identity.Members(ctx, identity.MemberFilter{Limit: suggested})
	var names []string
	for i := range people {
		if !slices.Contains(names, people[i].Name) {
			names = append(names, people[i].Name)
		}
	}
	return names, err
}
