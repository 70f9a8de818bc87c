// Package resource owns what skills offer agents besides tools: resources, their templates, prompts and completions. It
// decides whose an agent may see and read, asks their servers, records who read what, and tells clients when a resource changes that
// they are subscribed to.
//
// It does not own skills or assignments, nor what calls returned: it asks packages catalog and call. It stores
// what sessions are subscribed to; lists are remembered for as long as their servers allow.
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

// Sources is what the service needs of a *[tool.Discovery].
type Sources interface {
	Source(transport tool.Transport) (tool.Source, error)
}

// Upstream is what the service needs of an *[mcptool.Source].
type Upstream interface {
	Subscribe(ctx context.Context, server tool.Server, uri string) error
	Unsubscribe(ctx context.Context, server tool.Server, uri string)
}

// Config is what a [Service] is made of. Fields without a default are required.
type Config struct {
	Catalog Catalog
	Sources Sources
	Pool    *pgxpool.Pool
	Logger  *slog.Logger
	Now     func() time.Time

	// Upstream subscribes to resources, and has [Service.Updated] called when they change.
	Upstream Upstream

	// Returned finds the skills of whose finished calls in the conversation one returned this URI.
	Returned func(ctx context.Context, who Who, uri string) ([]uuid.UUID, error)

	// Headers tell a skill's server who a request is made for, where the skill says so; see [agent.IdentityHeaders].
	// Nil: no server is told. What is listed is told to nobody: agents share it.
	Headers func(ctx context.Context, skill *agent.Skill, who Who) (map[string]string, error)

	// ListTimeout bounds the listing of one skill. Zero: 15 s.
	ListTimeout time.Duration

	// Pause is the time between two notifications of updates of resources, at least. Zero: 500 ms.
	Pause time.Duration
	// Renew is after how long subscriptions are looked at again: whether they still are allowed, and whether the server still has
	// them. Zero: 15 s.
	Renew time.Duration
	// Linger is how long a server goes on being subscribed to what nobody here follows any more. Zero: 30 s.
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

// New makes a Service.
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
		Now: cfg.Now, TTLOf: (*listing).fresh, Size: (*listing).size, MaxSize: maxRemembered,
		LoadTimeout: cfg.ListTimeout + time.Second,
	})}
	s.updates = newUpdates(s)
	return s, nil
}

// Close ends what runs in the background.
func (s *Service) Close() {
	s.updates.close()
	s.listings.Close()
}

// Changed forgets the lists of a skill: its server said that they changed.
func (s *Service) Changed(skillID uuid.UUID) {
	s.listings.DropIf(func(key listingKey) bool { return key.skillID == skillID })
}

// Who asks: an agent, on somebody's behalf or nobody's (uuid.Nil), in one of its conversations.
type Who struct {
	AgentID, Principal, Conversation uuid.UUID
}

// Ask is how a client asks for one thing.
type Ask struct {
	// Members are more members of the request's params, in JSON and without braces: those of a request that goes on
	// with an earlier one. Nil: none.
	Members []byte
	// Input: the client may be asked for what the server needs first, by a result of type input_required.
	Input bool
	// Caller is who the request is made for.
	Caller tool.Caller
}

// SkillError is a failure of a skill's server.
type SkillError struct {
	Skill     string
	Stateless bool // the server speaks MCP 2026-07-28 or later
	Failure   *tool.Failure
}

func (e *SkillError) Error() string { return fmt.Sprintf("skill %s: %s", e.Skill, e.Failure.Message) }

func (e *SkillError) Unwrap() error { return e.Failure }

// Errors of requests that no server was asked.
var (
	// ErrUnknown: nothing the agent may see has this name.
	ErrUnknown = errors.New("there is no such thing")
	// ErrDenied: this resource cannot be read here. It says nothing about whether it exists.
	ErrDenied = errors.New("the resource may not be read")
)

// sendFor asks a skill's server for something on behalf of somebody.
func (s *Service) sendFor(ctx context.Context, who Who, o *catalog.Offer, method, name string, params []byte, ask Ask) (json.RawMessage, error) {
	if s.Headers != nil && o.Skill != nil {
		headers, err := s.Headers(ctx, o.Skill, who)
		if err != nil {
			return nil, fmt.Errorf("say who a request is made for: %w", err)
		}
		ask.Caller.Headers = headers
	}
	return s.send(ctx, o, method, name, params, ask)
}

// send asks a skill's server.
func (s *Service) send(ctx context.Context, o *catalog.Offer, method, name string, params []byte, ask Ask) (json.RawMessage, error) {
	if o.Problem != nil {
		return nil, unreachable(o)
	}
	source, err := s.Sources.Source(o.Server.Transport)
	if err != nil {
		return nil, err
	}
	raw, err := source.Request(ctx, o.Server, tool.Request{
		Method: method, Name: name, Params: params, Timeout: o.Skill.CallTimeout, Input: ask.Input, Caller: ask.Caller,
	})
	return raw, s.asSkill(ctx, o, err)
}

// asSkill is the error of a skill's server, as a *[SkillError].
func (s *Service) asSkill(ctx context.Context, o *catalog.Offer, err error) error {
	failure, is := errors.AsType[*tool.Failure](err)
	if !is {
		return err
	}
	fault := &SkillError{Skill: o.Skill.Name, Failure: failure}
	if failure.Kind == tool.JSONRPCError { // connected a moment ago, so this costs nothing
		if source, err := s.Sources.Source(o.Server.Transport); err == nil {
			if offers, err := source.Capabilities(ctx, o.Server); err == nil {
				fault.Stateless = offers.Stateless()
			}
		}
	}
	return fault
}

// maxRecorded bounds what an event repeats of a client's words, in bytes.
const maxRecorded = 500

// record writes an audit event about something that is called by a name. What cannot be recorded is not done.
func (s *Service) record(ctx context.Context, who Who, action string, o *catalog.Offer, noun, name string) error {
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
