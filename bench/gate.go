package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/holdpoint/holdpoint/internal/client"
)

const (
	gatePhase = "gate"
	gateSkill = "laptop"
	// hookWait is how many seconds the server may hold a request, as in holdpoint hook.
	hookWait = 50
)

// hook asks the gate about one call and waits for the decision, as holdpoint hook does.
type hook struct {
	wire      *wire
	requestID string
	done      chan struct{} // closed when answered or failed is set
	answered  time.Time
	failed    error
}

func (s *stage) gateTarget() target {
	return target{addr: s.addr, path: "/agents/" + agentName + "/gate", key: s.key, tool: "Bash"}
}

// registerGate adds a skill of a coding agent's own tools.
func (s *stage) registerGate(ctx context.Context) error {
	if _, err := s.api.Send(ctx, http.MethodPost, "/api/v1/skills", map[string]any{
		"name": gateSkill, "transport": "gate", "host": "claude-code", "approval_timeout": "1h",
	}); err != nil {
		return err
	}
	_, err := s.api.Assign(ctx, client.AssignRequest{Agent: agentName, Skill: gateSkill})
	return err
}

// startHooks parks n gate-only calls, numbered from first. A hook waits for each of them, on a connection of its own.
func (s *stage) startHooks(ctx context.Context, first, n int) ([]*pendingCall, error) {
	const submitters = 16
	clients, err := dialAll(ctx, s.gateTarget(), n)
	if err != nil {
		return nil, err
	}
	clients.submitters = submitters
	calls := make([]*pendingCall, n)
	err = clients.forEach(func(i int) error {
		h := &hook{wire: clients.wires[i], requestID: "bench-" + strconv.Itoa(first+i), done: make(chan struct{})}
		id, err := h.parkCall(first + i)
		if err != nil {
			return fmt.Errorf("park gate-only call %d: %w", first+i, err)
		}
		calls[i] = &pendingCall{heldCall: heldCall{wire: h.wire, id: id}, number: first + i, hook: h}
		go h.waitForDecision(id)
		return nil
	})
	if err != nil {
		clients.close() // ends the hooks
		return nil, err
	}
	return calls, s.readDigests(ctx, calls)
}

// parkCall asks about the call without waiting, and returns its ID.
func (h *hook) parkCall(number int) (string, error) {
	body, err := json.Marshal(client.GateRequest{
		Skill: gateSkill, Tool: h.wire.tool, RequestID: h.requestID, Context: client.GateContext{Cwd: "/home/bench"},
		Arguments: fmt.Appendf(nil, `{"command":"%s"}`, parkedText(number)),
	})
	if err != nil {
		return "", err
	}
	answer, err := h.askGate(body)
	if err == nil && answer.Decision != client.GatePending {
		err = fmt.Errorf("%w: %s: %s", errNotHeld, answer.Decision, answer.Message)
	}
	return answer.ID, err
}

func (h *hook) askGate(body []byte) (answer client.GateAnswer, err error) {
	response, err := h.wire.roundTrip(body)
	if err != nil {
		return answer, err
	}
	if err := json.Unmarshal(response.body, &answer); err != nil || response.status != http.StatusOK {
		return answer, fmt.Errorf("ask the gate: HTTP %d: %s", response.status, response.body)
	}
	return answer, nil
}

// waitForDecision asks again until the call is allowed.
func (h *hook) waitForDecision(id string) {
	defer close(h.done)
	h.wire.get = true
	h.wire.path += "/" + id + "?wait=" + strconv.Itoa(hookWait) + "&request_id=" + h.requestID
	answer := client.GateAnswer{Decision: client.GatePending}
	for answer.Decision == client.GatePending && h.failed == nil {
		answer, h.failed = h.askGate(nil)
	}
	h.answered = time.Now()
	if h.failed == nil && answer.Decision != client.GateAllow {
		h.failed = fmt.Errorf("call %s was not allowed: %s", id, answer.Message)
	}
}

// waitForEnd waits until the hook of a call knows the decision.
func (h *hook) waitForEnd(call *pendingCall) error {
	<-h.done
	call.answered = h.answered
	return h.failed
}

func closeHooks(calls []*pendingCall) {
	for _, call := range calls {
		call.wire.close()
		<-call.hook.done
	}
}

// gateSpan is one of the measured times.
type gateSpan struct {
	all     []time.Duration
	medians []float64 // ms, of each round
}

// gateMeasure compares gate-only calls with calls that Holdpoint sends.
type gateMeasure struct {
	*stage
	next, gated                         int // numbers of calls so far
	hookAnswers, arrivals, agentAnswers gateSpan
}

// measureGate compares both kinds of calls while many hooks wait at one process. Then it approves the calls of all hooks.
func measureGate(ctx context.Context, s *stage) error {
	n := choose(s.bench, 1000, 200)
	if err := checkFileLimit(n + 500); err != nil {
		return err
	}
	if err := s.registerGate(ctx); err != nil {
		return err
	}
	warmUp := &gateMeasure{stage: s}
	if err := warmUp.compareKinds(ctx, 0, choose(s.bench, 50, 10)); err != nil {
		return err
	}
	idle, err := s.waitForSteadyMemory(ctx)
	if err != nil {
		return err
	}
	m := &gateMeasure{stage: s, next: warmUp.next, gated: warmUp.gated}
	waiting, err := m.startNext(ctx, n)
	if err != nil {
		return err
	}
	defer closeHooks(waiting)
	busy, err := s.waitForSteadyMemory(ctx)
	if err != nil {
		return err
	}
	s.report.addFigure(gatePhase, fmt.Sprintf("memory of serve, %d hooks waiting", n), "KiB/call", float64(busy.rss-idle.rss)/1024/float64(n)).aimAtMost(90)
	s.report.addFigure(gatePhase, "goroutines", "per call", (busy.goroutines-idle.goroutines)/float64(n))
	for round := range choose(s.bench, 8, 4) {
		if err := m.compareKinds(ctx, round, choose(s.bench, 100, 20)); err != nil {
			return err
		}
	}
	m.reportSpans(n)
	if err := sendApprovals(ctx, s.deskTarget(), waiting, 200); err != nil {
		return err
	}
	s.report.addTimes(gatePhase, fmt.Sprintf("all %d hooks, 200 approvals/s: approve request to the hook's answer, ", n), spansUntil(waiting, answerOf))
	return m.checkReleases(ctx)
}

func (m *gateMeasure) startNext(ctx context.Context, n int) ([]*pendingCall, error) {
	first := m.next
	m.next, m.gated = m.next+n, m.gated+n
	return m.startHooks(ctx, first, n)
}

// compareKinds approves n gate-only calls and n calls that are sent, in turn.
func (m *gateMeasure) compareKinds(ctx context.Context, round, n int) error {
	hooks, err := m.startNext(ctx, n)
	if err != nil {
		return err
	}
	defer closeHooks(hooks)
	clients, err := connectClients(ctx, m.gatedTarget(), n, 16, 16)
	if err != nil {
		return err
	}
	defer clients.close()
	held, _, err := clients.parkCalls(m.next)
	if err != nil {
		return err
	}
	sent := make([]*pendingCall, n)
	for i := range held {
		sent[i] = &pendingCall{heldCall: held[i], number: m.next + i}
	}
	m.next += n
	if err := m.readDigests(ctx, sent); err != nil {
		return err
	}
	var both []*pendingCall
	for i := range n {
		both = append(both, hooks[i], sent[i])
	}
	if err := sendApprovals(ctx, m.deskTarget(), both, 50); err != nil {
		return err
	}
	if err := m.readArrivals(ctx, sent); err != nil {
		return err
	}
	m.hookAnswers.addRound(spansUntil(hooks, answerOf))
	m.agentAnswers.addRound(spansUntil(sent, answerOf))
	m.arrivals.addRound(spansUntil(sent, arrivalOf))
	m.logf("  round %d: hook answered after %.2f ms, call at the skill server after %.2f ms", round+1, m.hookAnswers.medians[round], m.arrivals.medians[round])
	return nil
}

func (s *gateSpan) addRound(took []time.Duration) {
	slices.Sort(took)
	s.medians = append(s.medians, percentile(took, 0.50, time.Millisecond))
	s.all = append(s.all, took...)
}

func (m *gateMeasure) reportSpans(waiting int) {
	r, at := &m.report, fmt.Sprintf("%d hooks waiting, 50 approvals/s: ", waiting)
	for _, s := range []struct {
		name string
		span *gateSpan
	}{
		{"gate-only: approve request to the hook's answer, ", &m.hookAnswers},
		{"sent: approve request to arrival at the skill server, ", &m.arrivals},
		{"sent: approve request to the agent's answer, ", &m.agentAnswers},
	} {
		half, most := r.addTimes(gatePhase, at+s.name, s.span.all)
		half.addSpread(s.span.medians)
		if s.span == &m.hookAnswers {
			half.aimBelow(3)
			most.aimBelow(10)
		}
	}
	ratio := func(name string, to *gateSpan) *figure {
		return r.addFigure(gatePhase, name, "ratio", median(m.hookAnswers.medians)/median(to.medians)).addSpread(divideRounds(m.hookAnswers.medians, to.medians))
	}
	ratio("hook's answer / arrival at the skill server: p50", &m.arrivals)
	ratio("hook's answer / agent's answer: p50", &m.agentAnswers).aimAtMost(1)
}

// checkReleases checks that each call of a hook was released once.
func (m *gateMeasure) checkReleases(ctx context.Context) error {
	var released int
	if err := m.pool.QueryRow(ctx, `SELECT count(*) FROM gate_releases`).Scan(&released); err != nil {
		return fmt.Errorf("count releases: %w", err)
	}
	if released != m.gated {
		return fmt.Errorf("%d of %d gate-only calls were released", released, m.gated)
	}
	return nil
}
