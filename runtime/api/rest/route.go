package rest

import (
	"context"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdpoint/holdpoint/internal/identity"
)

// Route is one operation: its address, its rule and its handler.
type Route struct {
	ID   string
	Rule Rule

	method, path, tag, summary string
	status                     int      // of success; zero: 200 with a body, else 204
	maxBody                    int64    // zero: 1 MiB
	ownChecks                  bool     // the handler validates the body itself
	streams                    []string // media types of a response that is not JSON
	register                   func(huma.API, huma.Operation, explainer)
}

// explainer makes a problem of a handler's error.
type explainer func(ctx context.Context, operation string, err error) *Problem

// NewRoute returns a route. The address is a method and a path below /api/v1/.
func NewRoute[I, O any](id, address, summary string, r Rule, handle func(context.Context, *I) (*O, error)) Route {
	method, path, _ := strings.Cut(address, " ")
	tag, _, _ := strings.Cut(path, "/")
	return Route{
		ID: id, Rule: r, method: method, path: "/api/v1/" + path, tag: tag, summary: summary,
		register: func(api huma.API, operation huma.Operation, explain explainer) {
			huma.Register(api, operation, func(ctx context.Context, input *I) (*O, error) {
				output, err := handle(ctx, input)
				if err != nil {
					return nil, explain(ctx, id, err)
				}
				return output, nil
			})
		},
	}
}

// Answers sets the status of success.
func (r Route) Answers(status int) Route {
	r.status = status
	return r
}

// Creates makes the status of success 201.
func (r Route) Creates() Route { return r.Answers(http.StatusCreated) }

// ChecksBody leaves the validation of the body to the handler.
func (r Route) ChecksBody() Route {
	r.ownChecks = true
	return r
}

// Streams declares a response that is not JSON.
func (r Route) Streams(mediaTypes ...string) Route {
	r.streams = mediaTypes
	return r
}

// Takes sets the greatest size of the body, in bytes. Bodies of more than 16 MiB may take a minute.
func (r Route) Takes(bytes int64) Route {
	r.maxBody = bytes
	return r
}

// EventStream is the media type of server-sent events.
const EventStream = "text/event-stream"

// Register registers the handler. Explain makes problems of its errors.
func (r Route) Register(api huma.API, explain explainer) {
	problem := api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[Problem](), true, "Problem")
	responses := map[string]*huma.Response{"default": {
		Description: "A problem (RFC 9457). 503 with Retry-After and the code database_unavailable: the database is unavailable.",
		Content:     map[string]*huma.MediaType{"application/problem+json": {Schema: problem}},
	}}
	if len(r.streams) > 0 {
		description := "The whole export; if the connection breaks, a part of it."
		if slices.Contains(r.streams, EventStream) {
			description = "Events: user, assistant, tools, call and notice, each with a ConversationEntry, and its seq as the id; without an id: state " +
				"with a Loop, delta {step, offset, text}, and restart {step}. The stream ends with the server or the credential: resume with Last-Event-ID."
		}
		content := map[string]*huma.MediaType{}
		for _, mediaType := range r.streams {
			content[mediaType] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString}}
		}
		responses["200"] = &huma.Response{Description: description, Content: content}
	}
	var patience time.Duration // zero: 5 s
	if r.maxBody > 16<<20 {
		patience = time.Minute
	}
	r.register(api, huma.Operation{
		BodyReadTimeout: patience,
		OperationID:     r.ID, Method: r.method, Path: r.path, Tags: []string{r.tag},
		Summary: r.summary, Description: r.Rule.String(),
		DefaultStatus: r.status, MaxBodyBytes: r.maxBody, SkipValidateBody: r.ownChecks,
		Responses: responses,
	}, explain)
}

// Rule says which callers may use an operation. Its zero value allows none.
type Rule struct {
	// Own: agents with a key, and all people. The operation shows and changes only the caller's own, unless Roles allow more.
	Own bool
	// People: all people and no agent, with the same limit.
	People bool
	// Roles: people with one of these roles.
	Roles []identity.Role
	// Invited: only the holder of an invitation.
	Invited bool
}

// Operators allows operators.
func Operators() Rule { return Rule{Roles: []identity.Role{identity.Operator}} }

// Reviewers allows reviewers.
func Reviewers() Rule { return Rule{Roles: []identity.Role{identity.Reviewer}} }

// Readers allows reviewers and operators.
func Readers() Rule { return Rule{Roles: []identity.Role{identity.Reviewer, identity.Operator}} }

// Allows reports whether the caller may use the operation.
func (r Rule) Allows(c Caller) bool {
	if r.Invited || c.Invitation != "" {
		return r.Invited && c.Invitation != ""
	}
	if c.Agent == nil && c.Person == nil {
		return false
	}
	return r.Own || r.People && c.Person != nil || c.HasRole(r.Roles...)
}

// String describes the rule for the document and for refusals.
func (r Rule) String() string {
	roles := make([]string, len(r.Roles))
	for i, role := range r.Roles {
		roles[i] = string(role)
	}
	people := strings.Join(roles, " or ")
	switch {
	case r.Invited:
		return "For the holder of an invitation, which is sent as the bearer token."
	case r.Own && people == "":
		return "Agents and people, for their own."
	case r.Own:
		return "Agents and people, for their own; people with the role " + people + ", for all."
	case r.People && people == "":
		return "People, for their own."
	case r.People:
		return "People, for their own; with the role " + people + ", for all."
	default:
		return "For people with the role " + people + "."
	}
}
