// Package resource owns the offers of skills besides tools: resources, their templates, prompts and completions. It decides which of
// them an agent may see and read, sends the requests to their servers, records reads in the audit, and notifies clients when a resource
// changes that they are subscribed to.
//
// It does not own skills, assignments or the results of calls: these are in packages catalog and call. It stores the subscriptions of
// sessions, and caches lists for as long as their servers allow.
package resource

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/registry"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Catalog is the part of a *[catalog.Service] that the service uses.
type Catalog interface {
	Offers(ctx context.Context, agentID, principal uuid.UUID) ([]catalog.Offer, error)
}

// Sources is the part of a *[tool.Discovery] that the service uses.
type Sources interface {
	Source(transport tool.Transport) (tool.Source, error)
}

// Upstream is the part of an *[mcptool.Source] that the service uses.
type Upstream interface {
	Subscribe(ctx context.Context, server tool.Server, uri string) error
	Unsubscribe(ctx context.Context, server tool.Server, uri string)
}

// Config has the dependencies and settings of a [Service]. Fields without a default are required.
type Config struct {
	Catalog Catalog
	Sources Sources
	Pool    *pgxpool.Pool
	Logger  *slog.Logger
	Now     func() time.Time

	// Upstream subscribes to resources, and calls [Service.Updated] when they change.
	Upstream Upstream

	// Returned returns the skills that returned this URI in a finished call of the conversation.
	Returned func(ctx context.Context, who Who, uri string) ([]uuid.UUID, error)

	// Headers returns the headers that identify the caller to a skill's server, see [agent.IdentityHeaders]. Requests for lists never have
	// them, because agents share the lists. Nil: no request has them.
	Headers func(ctx context.Context, skill *agent.Skill, who Who) (map[string]string, error)

	// ListTimeout bounds the listing of one skill. Zero: 15 s.
	ListTimeout time.Duration

	// Pause is the minimum time between two notifications of updates. Zero: 500 ms.
	Pause time.Duration
	// Renew is how often subscriptions are checked: whether they are still allowed, and whether the server still has them. Zero: 15 s.
	Renew time.Duration
	// Linger is how long a subscription stays on the server after its last follower left. Zero: 30 s.
	Linger time.Duration
}

const (
	defaultListTimeout = 15 * time.Second
	defaultPause       = 500 * time.Millisecond
	defaultRenew       = 15 * time.Second
	defaultLinger      = 30 * time.Second
)

// Service is safe for concurrent use.
type Service struct {
	Config
	listings *registry.Memory[listingKey, *listing]
	updates  *updates
}

// New returns a Service. The caller closes it.
func New(cfg Config) (*Service, error) {
	if cfg.Catalog == nil || cfg.Sources == nil || cfg.Pool == nil || cfg.Logger == nil || cfg.Now == nil || cfg.Returned == nil || cfg.Upstream == nil {
		return nil, errors.New("make resource service: Catalog, Sources, Pool, Logger, Now, Upstream and Returned are required")
	}
	for field, value := range map[*time.Duration]time.Duration{
		&cfg.ListTimeout: defaultListTimeout, &cfg.Pause: defaultPause, &cfg.Renew: defaultRenew, &cfg.Linger: defaultLinger,
	} {
		if *field == 0 {
			*field = value
		}
	}
	s := &Service{Config: cfg, listings: registry.NewMemory[listingKey](registry.Config[*listing]{
		Now: cfg.Now, TTLOf: (*listing).freshFor, Size: (*listing).countBytes, MaxSize: maxRemembered,
		LoadTimeout: cfg.ListTimeout + time.Second,
	})}
	s.updates = newUpdates(s)
	return s, nil
}

// Close ends all background work.
func (s *Service) Close() {
	s.updates.closeUpdates()
	s.listings.Close()
}

// Changed drops the cached lists of a skill whose server announced a change.
func (s *Service) Changed(skillID uuid.UUID) {
	s.listings.DropIf(func(key listingKey) bool { return key.skillID == skillID })
}

// Who is the caller: an agent, on behalf of a person or of none (uuid.Nil), in one of its conversations.
type Who struct {
	AgentID, Principal, Conversation uuid.UUID
}

// Ask has the options of a client's request.
type Ask struct {
	// Members are more members of the request's params, in JSON and without braces, such as those of a request that continues an earlier
	// one. Nil: none.
	Members []byte
	Input   bool // the server may ask the client for input, by a result of type input_required
	Caller  tool.Caller
}

// SkillError is a failure of a skill's server.
type SkillError struct {
	Skill     string
	Stateless bool // the server speaks MCP 2026-07-28 or later
	Failure   *tool.Failure
}

func (e *SkillError) Error() string { return fmt.Sprintf("skill %s: %s", e.Skill, e.Failure.Message) }

func (e *SkillError) Unwrap() error { return e.Failure }

// Errors of requests that were not sent to a server.
var (
	// ErrUnknown: the agent can see nothing of this name.
	ErrUnknown = errors.New("there is no such thing")
	// ErrDenied: this agent may not read the resource, which may or may not exist.
	ErrDenied = errors.New("the resource may not be read")
)

// sendForCaller sends a request to a skill's server with the headers that identify the caller.
func (s *Service) sendForCaller(ctx context.Context, who Who, o *catalog.Offer, method, name string, params []byte, ask Ask) (json.RawMessage, error) {
	if s.Headers != nil && o.Skill != nil {
		headers, err := s.Headers(ctx, o.Skill, who)
		if err != nil {
			return nil, fmt.Errorf("identify the caller of a request: %w", err)
		}
		ask.Caller.Headers = headers
	}
	return s.sendRequest(ctx, o, method, name, params, ask)
}

// sendRequest sends a request to a skill's server.
func (s *Service) sendRequest(ctx context.Context, o *catalog.Offer, method, name string, params []byte, ask Ask) (json.RawMessage, error) {
	if o.Problem != nil {
		return nil, failUnreachable(o)
	}
	source, err := s.requesterFor(o.Server.Transport)
	if err != nil {
		return nil, err
	}
	raw, err := source.Request(ctx, o.Server, tool.Request{
		Method: method, Name: name, Params: params, Timeout: o.Skill.CallTimeout, Input: ask.Input, Caller: ask.Caller,
	})
	return raw, s.asSkillError(ctx, o, err)
}

// asSkillError returns a failure of a skill's server as a *[SkillError].
func (s *Service) asSkillError(ctx context.Context, o *catalog.Offer, err error) error {
	failure, is := errors.AsType[*tool.Failure](err)
	if !is {
		return err
	}
	fault := &SkillError{Skill: o.Skill.Name, Failure: failure}
	if failure.Kind == tool.JSONRPCError { // connected a moment ago, so this sends no request
		if source, err := s.requesterFor(o.Server.Transport); err == nil {
			if offers, err := source.Capabilities(ctx, o.Server); err == nil {
				fault.Stateless = offers.Stateless()
			}
		}
	}
	return fault
}

// requesterFor returns the source of a transport as a [tool.Requester].
func (s *Service) requesterFor(transport tool.Transport) (tool.Requester, error) {
	source, err := s.Sources.Source(transport)
	if err != nil {
		return nil, err
	}
	if requester, ok := source.(tool.Requester); ok {
		return requester, nil
	}
	return toolsOnly{}, nil
}

// toolsOnly is the [tool.Requester] of an HTTP API: it offers tools and no other method of MCP.
type toolsOnly struct{}

func (toolsOnly) Request(_ context.Context, server tool.Server, request tool.Request) (json.RawMessage, error) {
	return nil, &tool.Failure{
		Kind: tool.JSONRPCError, Effect: tool.EffectNone, RPC: json.RawMessage(`{"code":-32601,"message":"Method not found"}`),
		Message: fmt.Sprintf("%s: skill %s is an HTTP API, which has tools only", request.Method, server.Skill),
	}
}

func (toolsOnly) Capabilities(context.Context, tool.Server) (tool.Capabilities, error) {
	return tool.Capabilities{Tools: true}, nil
}

// maxRecorded bounds the text of clients and servers in audit events and problems, in bytes.
const maxRecorded = 500

// writeAudit writes an audit event about an entry. If it fails, the action is not done.
func (s *Service) writeAudit(ctx context.Context, who Who, action audit.Action, o *catalog.Offer, noun, name string) error {
	event := audit.Event{
		Actor: audit.Agent(who.AgentID), Action: action, Subject: who.Conversation,
		Data: map[string]any{noun: plain.Line(name, maxRecorded)},
	}
	if who.Principal != uuid.Nil {
		event.Actor = audit.Person(who.Principal)
		event.Data["agent_id"] = who.AgentID
	}
	if o != nil {
		event.Data["skill"], event.Data["skill_id"] = o.Skill.Name, o.Skill.ID
	}
	return postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error { return audit.Write(ctx, tx, event) })
}
