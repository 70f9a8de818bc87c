package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/httptool/setting"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Trial is one call of an HTTP API that an operator makes to see how it answers. No agent has to do with it.
type Trial struct {
	Tool      string
	Arguments json.RawMessage
	Person    uuid.UUID // who tries, where each person has a connection of their own
}

// Tried is what came of a [Trial].
type Tried struct {
	Request tool.Outgoing // secrets masked
	Result  tool.Result
	Failure *tool.Failure // nil: there is a result
}

// maxTrial bounds the arguments of a trial, in bytes, and trialTimeout the call.
const (
	maxTrial     = 1 << 20
	trialTimeout = time.Minute
)

// Try makes one call of a skill over an HTTP API. It can only be one that reads (GET or HEAD), is recorded before it is sent, and
// becomes no call of the log: an agent's would have been parked. Errors: ErrNotFound, tool.ErrNotFound, tool.ErrNoSource, *InvalidError;
// *tool.Failure: its tools cannot be listed.
func (s *Service) Try(ctx context.Context, by audit.Actor, skillID uuid.UUID, trial Trial) (*Tried, error) {
	skill, server, err := s.FreshSkill(ctx, skillID)
	if err != nil {
		return nil, err
	}
	return s.try(ctx, by, server, skill.CallTimeout, trial, map[string]any{"name": skill.Name})
}

// TryDraft does the same with a skill that is not registered. It cannot be one that is authorized to by OAuth: tokens belong to
// skills that are.
func (s *Service) TryDraft(ctx context.Context, by audit.Actor, spec SkillSpec, trial Trial) (*Tried, error) {
	server, timeout, done, err := s.draftServer(spec)
	if err != nil {
		return nil, err
	}
	defer done()
	return s.try(ctx, by, server, timeout, trial, map[string]any{"name": spec.Name, "draft": true})
}

// DraftTools are the tools that a skill that is not registered would have. Errors as of TryDraft.
func (s *Service) DraftTools(ctx context.Context, spec SkillSpec) (tool.Listing, error) {
	server, _, done, err := s.draftServer(spec)
	if err != nil {
		return tool.Listing{}, err
	}
	defer done()
	source, err := s.discovery.Source(server.Transport)
	if err != nil {
		return tool.Listing{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, trialTimeout)
	defer cancel()
	return source.List(ctx, server)
}

// Examine tells what an OpenAPI document offers: the one at a URL, or the one that is given by value. Nothing of it is kept. Errors:
// *InvalidError, tool.ErrNoSource.
func (s *Service) Examine(ctx context.Context, spec, document string) (*setting.Examination, error) {
	if s.examiner == nil {
		return nil, fmt.Errorf("examine document: %w", tool.ErrNoSource)
	}
	r := newReport()
	r.check(document == "" || spec == "", "document", "must be left out where there is a spec: the document comes from the one or the other")
	r.check(len(document) <= MaxDocument, "document", fmt.Sprintf("must be at most %d MiB", MaxDocument>>20))
	if document == "" {
		r.url("spec", spec)
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	field := "spec"
	examine := func() (setting.Examination, error) { return s.examiner.Examine(ctx, spec) }
	if document != "" {
		field = "document"
		examine = func() (setting.Examination, error) { return s.examiner.ExamineDocument(ctx, []byte(document)) }
	}
	found, err := examine()
	if failure, ok := errors.AsType[*tool.Failure](err); ok {
		return nil, invalidTrial(field, failure.Message)
	}
	if err != nil {
		return nil, err
	}
	return &found, nil
}

// CheckSkill says what is wrong with a spec, as CreateSkill would: nil, or *InvalidError.
func (s *Service) CheckSkill(spec SkillSpec) error {
	r := newReport()
	state := spec.state(r)
	state.validate(r, s.limits)
	return r.err()
}

// draftServer is the server of a skill that is not registered, until done is called.
func (s *Service) draftServer(spec SkillSpec) (server tool.Server, timeout time.Duration, done func(), err error) {
	r := newReport()
	state := spec.state(r)
	state.validate(r, s.limits)
	r.check(state.Transport.IsAPI(), "transport", "must be openapi or http-api: of others no call is tried")
	r.check(state.OAuth == nil && !state.PerUser, "oauth", "register the skill and connect it first: its tokens belong to it")
	if err := r.err(); err != nil {
		return server, 0, nil, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return server, 0, nil, err
	}
	api := state.API.API
	api.Select = map[string]string{}
	for name, settings := range state.Tools {
		if settings.Select != "" {
			api.Select[name] = settings.Select
		}
	}
	server = tool.Server{
		SkillID: id, Skill: spec.Name, Revision: 1, Transport: state.Transport, URL: state.URL, Headers: maps.Clone(state.Headers),
		API: &api, AuthSecret: state.API.secret,
	}
	return server, state.CallTimeout, s.drafts.lend(api.Document, state.API.document), nil
}

func (s *Service) try(ctx context.Context, by audit.Actor, server tool.Server, timeout time.Duration, trial Trial, data map[string]any) (*Tried, error) {
	source, err := s.discovery.Source(server.Transport)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*trialTimeout)
	defer cancel()
	server = server.For(trial.Person)
	request := tool.CallRequest{Tool: trial.Tool, Arguments: trial.Arguments, Timeout: min(timeout, trialTimeout)}
	if request.CallID, err = uuid.NewV7(); err != nil {
		return nil, err
	}
	if request.Definition, err = triable(ctx, source, server, trial); err != nil {
		return nil, err
	}
	sent, err := source.Outgoing(server, request)
	if refused, ok := errors.AsType[*tool.Failure](err); ok {
		return nil, invalidTrial("arguments", refused.Message)
	}
	if err != nil {
		return nil, err
	}
	if sent == nil || sent.Method != http.MethodGet && sent.Method != http.MethodHead {
		return nil, invalidTrial("tool", "must be one that reads, with GET or HEAD: an agent's call of another is seen by a reviewer")
	}
	data["tool"], data["method"], data["url"] = trial.Tool, sent.Method, storable(sent.URL)
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		return audit.Write(ctx, tx, audit.Event{Actor: by, Action: "skill.tried", Subject: server.SkillID, Data: data})
	})
	if err != nil {
		return nil, fmt.Errorf("record trial: %w", err)
	}
	tried := &Tried{Request: *sent}
	tried.Result, err = source.Call(ctx, server, request)
	if err != nil {
		var ok bool
		if tried.Failure, ok = errors.AsType[*tool.Failure](err); !ok {
			return nil, err
		}
	}
	return tried, nil
}

// triable is the definition of the tool that is tried, whose arguments fit it.
func triable(ctx context.Context, source tool.Source, server tool.Server, trial Trial) (*tool.Definition, error) {
	if len(trial.Arguments) > maxTrial {
		return nil, invalidTrial("arguments", fmt.Sprintf("must be at most %d KiB", maxTrial>>10))
	}
	listing, err := source.List(ctx, server)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(listing.Tools, func(d tool.Definition) bool { return d.Name == trial.Tool })
	if i < 0 {
		return nil, fmt.Errorf("try %q: %w", trial.Tool, tool.ErrNotFound)
	}
	definition := &listing.Tools[i]
	schemas, err := tool.CompileSchemas(*definition)
	if err != nil {
		return nil, invalidTrial("tool", err.Error())
	}
	problems, err := schemas.ValidateInput(ctx, trial.Arguments)
	if errors.Is(err, tool.ErrTooComplex) {
		return nil, invalidTrial("arguments", "are "+err.Error())
	}
	if err != nil {
		return nil, err
	}
	r := newReport()
	for _, problem := range problems {
		r.add("arguments", problem.String())
	}
	return definition, r.err()
}

func invalidTrial(field, message string) error {
	return &InvalidError{Problems: []FieldProblem{{Path: field, Message: message}}}
}
