package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/authfail"
	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/mcpserver/wire"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Gateways ask before they send a call, in a protocol of their own: AuthZEN (authzen.go), Envoy's ext_authz (extauthz.go) and agentgateway's
// ExtMcp (extmcp.go). Each is a thin face on the gate: the first question parks the call and denies it, and when the agent makes the call
// again, an approved one passes once. A gateway is an agent with a skill for its calls, and authenticates with the agent's key.

// gatewaySkill names the skill, in the settings or headers of a gateway. It may be left out if the agent has one skill for gateways.
const gatewaySkill = "holdpoint-skill"

// identifyGateway returns the agent of a key, and the context of its request. Error: agent.ErrUnauthenticated.
func (s *Server) identifyGateway(ctx context.Context, key string) (context.Context, caller, error) {
	if key == "" {
		return ctx, caller{}, agent.ErrUnauthenticated
	}
	a, err := s.Agents.Authenticate(ctx, key)
	if errors.Is(err, agent.ErrUnauthenticated) {
		s.Failures.Refuse(ctx, authfail.Endpoint)
	}
	if err != nil {
		return ctx, caller{}, err
	}
	who := caller{agent: a, credential: audit.Credential{Kind: audit.AgentKey, ID: a.KeyID.String()}}
	return audit.WithCredential(ctx, who.auditActor(), who.credential), who, nil
}

// askForGateway asks the gate within the agent's limits, and does not wait. The gateway learns the end of a call with the answer.
func (s *Server) askForGateway(ctx context.Context, who caller, ask *gateAsk) (call.Passage, error) {
	done, err := s.admitAsk(ctx, http.Header{}, who.agent)
	if err != nil {
		return call.Passage{}, err
	}
	defer done()
	p, err := s.submitAsk(ctx, endedContext(ctx), who, ask)
	if err != nil {
		return call.Passage{}, err
	}
	if p.Pending && p.Alone {
		p.Message += nobodyDecides
	}
	s.noteDelivered(ctx, who.agent, &p)
	return p, nil
}

// endedContext returns a context that has ended: the wait of a caller that does not wait.
func endedContext(ctx context.Context) context.Context {
	ended, cancel := context.WithCancel(ctx)
	cancel()
	return ended
}

// describeRefusal returns the text for a gateway's client about a question that was not answered.
func (s *Server) describeRefusal(who caller, err error) string {
	if errors.Is(err, agent.ErrUnauthenticated) {
		return "This request was refused: the gateway is not authenticated at Holdpoint. It needs a key of its agent."
	}
	name := ""
	if who.agent != nil {
		name = who.agent.Name
	}
	return "This request was refused, and nothing was executed: " + s.describeProblem(http.Header{}, name, err).detail
}

// recoverGateway turns a panic into an error, which refuses the request.
func recoverGateway(err *error) {
	if cause := recover(); cause != nil {
		*err = fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
	}
}

// checkExactNumbers refuses arguments with numbers that other programs may read as other numbers: those that a 64-bit floating-point number
// does not keep, such as 2^53+1.
func checkExactNumbers(arguments []byte) error {
	var budget tool.NumberBudget
	decoder := jsontext.NewDecoder(strings.NewReader(string(arguments)))
	for {
		token, err := decoder.ReadToken()
		if err != nil {
			return nil //nolint:nilerr // the end, or an error that CleanArguments reports
		}
		if token.Kind() != '0' {
			continue
		}
		if err := budget.Spend(token.String()); err != nil {
			return invalidField("arguments", "%s", err)
		}
		f, err := strconv.ParseFloat(token.String(), 64)
		written, ok := new(big.Rat).SetString(token.String())
		if kept, kok := new(big.Rat).SetString(strconv.FormatFloat(f, 'g', -1, 64)); err != nil || !ok || !kok || written.Cmp(kept) != 0 {
			return invalidField("arguments"+plain.Visible(string(decoder.StackPointer()), wire.MaxShown), "must be a number that a 64-bit floating-point number keeps, or a string")
		}
	}
}
