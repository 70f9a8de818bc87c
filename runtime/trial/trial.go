// Package trial asks the servers of skills outside of calls, so that an operator can set a skill up before an agent uses it: it
// probes a server, lists its tools, examines an OpenAPI document and makes one reading call. It owns the drafts of skills that
// are not registered yet (table skill_drafts). It does not own skills, which are package agent's.
package trial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/httptool/setting"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Config configures a [Service]. Pool, Agents, Discovery and Box are required.
type Config struct {
	Pool      *pgxpool.Pool
	Agents    *agent.Service
	Discovery *tool.Discovery
	Box       *secret.Box // seals drafts
	// Examiner reads OpenAPI documents. Nil: [Service.Examine] is not available.
	Examiner Examiner
}

// Examiner lists the operations of OpenAPI documents. Errors are *tool.Failure.
type Examiner interface {
	Examine(ctx context.Context, url string) (setting.Examination, error)
	ExamineDocument(ctx context.Context, document []byte) (setting.Examination, error)
}

// Service tries skills. It is safe for concurrent use.
type Service struct {
	pool      *pgxpool.Pool
	agents    *agent.Service
	discovery *tool.Discovery
	box       *secret.Box
	examiner  Examiner
	documents draftDocuments
}

// New makes a Service.
func New(cfg Config) (*Service, error) {
	if cfg.Pool == nil || cfg.Agents == nil || cfg.Discovery == nil || cfg.Box == nil {
		return nil, errors.New("trial: Pool, Agents, Discovery and Box are required")
	}
	return &Service{pool: cfg.Pool, agents: cfg.Agents, discovery: cfg.Discovery, box: cfg.Box, examiner: cfg.Examiner}, nil
}

// ListAgain lists a skill's tools from its server, with the person's connection, and ignores cached listings. The failure is
// the server's, and the skill's health shows it too; the error is this process's. ErrNotFound.
func (s *Service) ListAgain(ctx context.Context, skillID, person uuid.UUID) (*tool.Failure, error) {
	skill, server, err := s.agents.FreshSkill(ctx, skillID)
	if err != nil {
		return nil, err
	}
	s.discovery.ListChanged(skillID)
	_, err = s.discovery.List(ctx, server.For(person), skill.TrustNewTools)
	if failure, ok := errors.AsType[*tool.Failure](err); ok {
		return failure, nil
	}
	if errors.Is(err, tool.ErrSuperseded) { // the change of the skill lists its tools again
		return nil, nil
	}
	return nil, err
}

const (
	probeTimeout = time.Minute
	callTimeout  = time.Minute
	maxArguments = 1 << 20 // bytes
	maxURL       = 500     // bytes of a URL in the audit log
)

// Probe makes a new connection to a skill's server, with the person's credentials, and reports each step when it is done. A
// failure of the server is in the last step. The error is this process's, and comes before the first step. Errors: ErrNotFound,
// tool.ErrNoSource.
func (s *Service) Probe(ctx context.Context, skillID, person uuid.UUID, report func(tool.Step)) error {
	_, server, err := s.agents.FreshSkill(ctx, skillID)
	if err != nil {
		return err
	}
	source, err := s.discovery.Source(server.Transport)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	failed := false
	err = source.Probe(ctx, server.For(person), func(step tool.Step) {
		failed = failed || step.Err != nil
		report(step)
	})
	if err != nil && !failed {
		report(tool.Step{Name: "probe", Err: err})
	}
	return nil
}

// Examine lists the operations of an OpenAPI document, which is given by its URL or by value. Nothing is stored. Errors:
// *fault.InvalidError, tool.ErrNoSource.
func (s *Service) Examine(ctx context.Context, spec, document string) (*setting.Examination, error) {
	if s.examiner == nil {
		return nil, fmt.Errorf("examine document: %w", tool.ErrNoSource)
	}
	if err := agent.CheckDocumentSource(spec, document); err != nil {
		return nil, err
	}
	var found setting.Examination
	var err error
	field := "spec"
	if document != "" {
		field = "document"
		found, err = s.examiner.ExamineDocument(ctx, []byte(document))
	} else {
		found, err = s.examiner.Examine(ctx, spec)
	}
	if failure, ok := errors.AsType[*tool.Failure](err); ok {
		return nil, fault.Invalid(field, failure.Message)
	}
	if err != nil {
		return nil, err
	}
	return &found, nil
}

// Request is one call of an HTTP API that an operator makes to see its response. It belongs to no agent.
type Request struct {
	Tool      string
	Arguments json.RawMessage
	Person    uuid.UUID // whose connection is used, where each person has one
}

// Response is the response to a [Request].
type Response struct {
	Request tool.Outgoing // secrets masked
	Result  tool.Result
	Failure *tool.Failure // nil if there is a result
}

// Try makes one call of a skill over an HTTP API. The tool must be one that reads (GET or HEAD), because no reviewer sees the
// call. The audit log records the call before it is sent; the call log does not have it. Errors: ErrNotFound, tool.ErrNotFound,
// tool.ErrNoSource, *fault.InvalidError; *tool.Failure if the tools cannot be listed.
func (s *Service) Try(ctx context.Context, by audit.Actor, skillID uuid.UUID, request Request) (*Response, error) {
	skill, server, err := s.agents.FreshSkill(ctx, skillID)
	if err != nil {
		return nil, err
	}
	return s.callTool(ctx, by, server, skill.CallTimeout, request, map[string]any{"name": skill.Name})
}

// TryDraft does the same with a skill that is not registered. The skill cannot have OAuth settings, because only registered
// skills have tokens.
func (s *Service) TryDraft(ctx context.Context, by audit.Actor, spec agent.SkillSpec, request Request) (*Response, error) {
	draft, err := s.agents.PrepareDraft(spec)
	if err != nil {
		return nil, err
	}
	defer s.documents.lend(draft.Server.API.Document, draft.Document)()
	return s.callTool(ctx, by, draft.Server, draft.CallTimeout, request, map[string]any{"name": spec.Name, "draft": true})
}

// DraftTools lists the tools of a skill that is not registered. Errors as of TryDraft.
func (s *Service) DraftTools(ctx context.Context, spec agent.SkillSpec) (tool.Listing, error) {
	draft, err := s.agents.PrepareDraft(spec)
	if err != nil {
		return tool.Listing{}, err
	}
	defer s.documents.lend(draft.Server.API.Document, draft.Document)()
	source, err := s.discovery.Source(draft.Server.Transport)
	if err != nil {
		return tool.Listing{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return source.List(ctx, draft.Server)
}

func (s *Service) callTool(ctx context.Context, by audit.Actor, server tool.Server, timeout time.Duration, request Request, data map[string]any) (*Response, error) {
	source, err := s.discovery.Source(server.Transport)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*callTimeout)
	defer cancel()
	server = server.For(request.Person)
	call := tool.CallRequest{Tool: request.Tool, Arguments: request.Arguments, Timeout: min(timeout, callTimeout)}
	if call.CallID, err = uuid.NewV7(); err != nil {
		return nil, err
	}
	if call.Definition, err = findTool(ctx, source, server, request); err != nil {
		return nil, err
	}
	var sent *tool.Outgoing
	if previewer, ok := source.(tool.Previewer); ok {
		sent, err = previewer.Outgoing(server, call)
	}
	if refused, ok := errors.AsType[*tool.Failure](err); ok {
		return nil, fault.Invalid("arguments", refused.Message)
	}
	if err != nil {
		return nil, err
	}
	if sent == nil || sent.Method != http.MethodGet && sent.Method != http.MethodHead {
		return nil, fault.Invalid("tool", "must be one that reads, with GET or HEAD: others need an agent's call, which a reviewer sees")
	}
	data["tool"], data["method"], data["url"] = request.Tool, sent.Method, plain.Storable(sent.URL, maxURL)
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		return audit.Write(ctx, tx, audit.Event{Actor: by, Action: audit.SkillTried, Subject: server.SkillID, Data: data})
	})
	if err != nil {
		return nil, fmt.Errorf("record trial: %w", err)
	}
	response := &Response{Request: *sent}
	response.Result, err = source.Call(ctx, server, call)
	if err != nil {
		var ok bool
		if response.Failure, ok = errors.AsType[*tool.Failure](err); !ok {
			return nil, err
		}
	}
	return response, nil
}

// findTool lists the server's tools and returns the definition of the requested one, after the arguments were validated.
func findTool(ctx context.Context, source tool.Source, server tool.Server, request Request) (*tool.Definition, error) {
	if len(request.Arguments) > maxArguments {
		return nil, fault.Invalid("arguments", fmt.Sprintf("must be at most %d KiB", maxArguments>>10))
	}
	listing, err := source.List(ctx, server)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(listing.Tools, func(d tool.Definition) bool { return d.Name == request.Tool })
	if i < 0 {
		return nil, fmt.Errorf("try tool %q: %w", request.Tool, tool.ErrNotFound)
	}
	definition := &listing.Tools[i]
	schemas, err := tool.CompileSchemas(*definition)
	if err != nil {
		return nil, fault.Invalid("tool", err.Error())
	}
	problems, err := schemas.ValidateInput(ctx, request.Arguments)
	if errors.Is(err, tool.ErrTooComplex) {
		return nil, fault.Invalid("arguments", "are "+err.Error())
	}
	if err != nil {
		return nil, err
	}
	if len(problems) == 0 {
		return definition, nil
	}
	invalid := &fault.InvalidError{}
	for _, problem := range problems {
		invalid.Fields = append(invalid.Fields, fault.Field{Name: "arguments", Expected: problem.String()})
	}
	return nil, invalid
}
