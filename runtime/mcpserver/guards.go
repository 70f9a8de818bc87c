package mcpserver

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/guarded"
	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/mcpserver/wire"
)

// A guard is a coding agent on a machine whose built-in tools ask the gate; see package guarded. Its machine reports with the agent's key.

// Guards is a *[guarded.Service].
type Guards interface {
	Report(ctx context.Context, agentID, id uuid.UUID, r guarded.Report) error
	NoteAsked(ctx context.Context, agentID, id uuid.UUID)
	NoteBypass(ctx context.Context, agentID, id uuid.UUID, tool string) error
}

const codeWatchKey = "wrong_watch_key"

// mountGuards adds the routes of guards. An agent's limits do not count there: a report that is refused would look like silence.
func (s *Server) mountGuards(mux *http.ServeMux) {
	for pattern, serve := range map[string]func(*gateExchange) error{
		"PUT /agents/{agent}/guards/{id}":      (*gateExchange).serveGuardReport,
		"POST /agents/{agent}/guards/{id}/ran": (*gateExchange).serveRan,
	} {
		mux.HandleFunc(pattern, s.guard(func(x *exchange) {
			if gate := (&gateExchange{x}); x.Guards == nil {
				gate.answerProblem(guarded.ErrNotFound)
			} else if err := serve(gate); err != nil {
				gate.answerProblem(err)
			}
		}))
	}
}

// serveGuardReport takes a report about a guard, which the first one registers.
func (x *gateExchange) serveGuardReport() error {
	var body struct {
		WatchKey string   `json:"watch_key"`
		Host     string   `json:"host"`
		Machine  string   `json:"machine"`
		Scope    string   `json:"scope"`
		Version  string   `json:"version"`
		Files    []string `json:"files"`
		Every    int      `json:"every"`
		Problems []string `json:"problems"`
		Removed  bool     `json:"removed"`
	}
	id, err := x.guardID()
	if err == nil {
		err = x.readGateBody(maxReport, &body)
	}
	if err != nil {
		return err
	}
	if body.Every < 0 || body.Every > int(time.Hour/time.Second) {
		return invalidField("every", "must be between 0 and 3600 seconds")
	}
	err = x.Guards.Report(context.WithoutCancel(x.r.Context()), x.agent.ID, id, guarded.Report{
		WatchKey: body.WatchKey, Host: body.Host, Machine: body.Machine, Scope: body.Scope, Version: body.Version, Files: body.Files,
		Every: time.Duration(body.Every) * time.Second, Problems: body.Problems, Removed: body.Removed,
	})
	if err == nil {
		x.w.WriteHeader(http.StatusNoContent)
	}
	return err
}

// serveRan takes the word of a hook that its host ran a call of which the hook knows no release. If there is none, the guard was bypassed.
func (x *gateExchange) serveRan() error {
	var body struct {
		Skill     string         `json:"skill"`
		Tool      string         `json:"tool"`
		Arguments jsontext.Value `json:"arguments"`
	}
	id, err := x.guardID()
	if err == nil {
		err = x.readGateBody(x.MaxBody, &body)
	}
	if err != nil {
		return err
	}
	if body.Tool == "" || body.Tool != plain.Storable(body.Tool, maxRequestName) {
		return invalidField("tool", "must be 1 to %d bytes of UTF-8 without NUL", maxRequestName)
	}
	ctx := context.WithoutCancel(x.r.Context())
	released := false
	if arguments, err := call.CleanArguments(body.Arguments); err == nil { // others were never released
		if released, err = x.Calls.IsReleased(ctx, x.viewer(), body.Skill, body.Tool, arguments); err != nil {
			return err
		}
	}
	if !released {
		if err := x.Guards.NoteBypass(ctx, x.agent.ID, id, body.Tool); err != nil {
			return err
		}
	}
	x.writeBody(http.StatusOK, "application/json", marshal(map[string]bool{"released": released}))
	return nil
}

func (x *gateExchange) guardID() (uuid.UUID, error) {
	id, err := uuid.Parse(x.r.PathValue("id"))
	if err != nil {
		return uuid.Nil, guarded.ErrNotFound
	}
	return id, nil
}

// describeGuardProblem returns the problem of an error about a guard. Nil: it is another error.
func describeGuardProblem(err error) *gateProblem {
	invalid, isInvalid := errors.AsType[*fault.InvalidError](err)
	switch {
	case errors.Is(err, guarded.ErrNotFound):
		return &gateProblem{http.StatusNotFound, codeNotFound, "there is no such guard"}
	case errors.Is(err, guarded.ErrWatchKey):
		return &gateProblem{http.StatusForbidden, codeWatchKey, guarded.ErrWatchKey.Error()}
	case isInvalid:
		return &gateProblem{http.StatusUnprocessableEntity, codeInvalidRequest, plain.Visible(invalid.Error(), wire.MaxShown)}
	}
	return nil
}
