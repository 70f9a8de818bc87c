// Package review owns the page of one call, where reviewers read, compare, edit and decide it. It also owns the page that decides similar
// calls together, and those about plans. Package queue owns the list of pending calls.
package review

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/converse"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/live"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/view"
)

// ConnectionResolver says who can connect the skill that a call waits for.
type ConnectionResolver interface {
	Resolver(ctx context.Context, access identity.Access, c *call.Call, names map[uuid.UUID]string) (view.Resolver, error)
}

// Config has the dependencies of the handlers. All are required.
type Config struct {
	Shell       *shell.Shell
	Calls       *call.Service
	Identity    *identity.Service
	Agents      *agent.Service
	Converse    *converse.Service
	Discovery   *tool.Discovery
	Pool        *pgxpool.Pool
	Presence    *live.Presence
	Connections ConnectionResolver
	Login       *login.Login
	Choices     func(batch *pgx.Batch, person uuid.UUID, into *view.QueueChoices) // adds the read of a person's settings to a batch
	ProofAge    time.Duration                                                     // how long a sign-in counts as recent for calls of high risk
}

// Handlers answer requests about single calls.
type Handlers struct {
	Calls     *CallHandler
	Decisions *DecisionHandler
	Batches   *BatchHandler
	Questions *QuestionHandler
	Plans     *PlanHandler
}

// New returns the handlers.
func New(cfg Config) *Handlers {
	read := &reader{
		Shell: cfg.Shell, calls: cfg.Calls, identity: cfg.Identity, agents: cfg.Agents, converse: cfg.Converse, discovery: cfg.Discovery, pool: cfg.Pool,
		connections: cfg.Connections, queueChoices: cfg.Choices, presence: cfg.Presence,
	}
	calls := &CallHandler{Shell: cfg.Shell, reader: read, calls: cfg.Calls, identity: cfg.Identity, presence: cfg.Presence}
	return &Handlers{
		Calls: calls,
		Decisions: &DecisionHandler{
			Shell: cfg.Shell, reader: read, callPages: calls, calls: cfg.Calls, login: cfg.Login, proofAge: cfg.ProofAge,
		},
		Batches:   &BatchHandler{Shell: cfg.Shell, reader: read, calls: cfg.Calls},
		Questions: &QuestionHandler{Shell: cfg.Shell, reader: read, callPages: calls, calls: cfg.Calls, login: cfg.Login, proofAge: cfg.ProofAge},
		Plans:     &PlanHandler{Shell: cfg.Shell, reader: read, calls: cfg.Calls, agents: cfg.Agents},
	}
}

// reader reads and presents a call with all data of its page.
type reader struct {
	*shell.Shell

	calls        *call.Service
	identity     *identity.Service
	agents       *agent.Service
	converse     *converse.Service
	discovery    *tool.Discovery
	pool         *pgxpool.Pool
	connections  ConnectionResolver
	queueChoices func(batch *pgx.Batch, person uuid.UUID, into *view.QueueChoices)
	presence     *live.Presence
}

// CallHandler shows a call with its files and results.
type CallHandler struct {
	*shell.Shell

	reader   *reader
	calls    *call.Service
	identity *identity.Service
	presence *live.Presence
}

// DecisionHandler decides about a call, with edited arguments or without.
type DecisionHandler struct {
	*shell.Shell

	reader    *reader
	callPages *CallHandler
	calls     *call.Service
	login     *login.Login
	proofAge  time.Duration
}

// BatchHandler decides about several similar calls on one page.
type BatchHandler struct {
	*shell.Shell

	reader *reader
	calls  *call.Service
}

// QuestionHandler decides about the questions that a call's server asks.
type QuestionHandler struct {
	*shell.Shell

	reader    *reader
	callPages *CallHandler
	calls     *call.Service
	login     *login.Login
	proofAge  time.Duration
}

// PlanHandler shows plans, lists of calls to come, and decides about them.
type PlanHandler struct {
	*shell.Shell

	reader *reader
	calls  *call.Service
	agents *agent.Service
}
