package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

const agentsPhase = "agents"

// The figures of parked calls.
const (
	agentOne    = "1 client: calls parked"
	agentMany   = "16 clients: calls parked"
	agentBytes  = "database"
	agentSlow50 = "50 approvals/s: approve request to arrival, p50"
	agentSlow99 = "50 approvals/s: approve request to arrival, p99"
	agentFast50 = "200 approvals/s: approve request to arrival, p50"
	agentFast99 = "200 approvals/s: approve request to arrival, p99"
)

// approver is a program whose calls wait for approval.
type approver struct {
	*subject
	desk  target        // takes approvals
	pool  *pgxpool.Pool // of its database
	start func(context.Context, *approver) error
	// park parks calls, numbered from first, and returns how long it took. release disconnects the clients.
	park func(ctx context.Context, first, n, submitters int) (calls []*pendingCall, took time.Duration, release func(), err error)
	// read reads the calls as a reviewer does; nil: an approval needs no more than the ID.
	read    func(context.Context, []*pendingCall) error
	closers []func()
	rounds  map[string][]float64 // by figure
}

// agentBench measures approvers beside each other.
type agentBench struct {
	*stage
	npm  npmPeers
	next int // number of the next call
}

// measureAgents parks and approves the same calls with Holdpoint and with agent frameworks that keep their runs in PostgreSQL.
func (p npmPeers) measureAgents(ctx context.Context, s *stage) error {
	b := &agentBench{stage: s, npm: p}
	all := []*approver{
		b.newHoldpoint(),
		b.newAgent("LangGraph.js", "@langchain/langgraph", "langgraph.mjs",
			"Checkpoints in PostgreSQL, default durability. The process that takes the approval runs the tool."),
		b.newAgent("OpenAI Agents JS", "@openai/agents", "openai-agents.mjs",
			"The application stores the run's state in a table of its own and claims it. The process that takes the approval runs the tool."),
	}
	defer func() {
		for _, a := range all {
			for _, end := range slices.Backward(a.closers) {
				end()
			}
		}
	}()
	if err := b.visitApprovers(ctx, all, 0, b.openApprover); err != nil {
		return err
	}
	rounds := choose(s.bench, 7, 3)
	for round := range rounds {
		if err := b.visitApprovers(ctx, all, round, b.measureParking); err != nil {
			return err
		}
	}
	if err := b.visitApprovers(ctx, all, 0, b.parkCrowd); err != nil {
		return err
	}
	for round := range rounds {
		if err := b.visitApprovers(ctx, all, round, b.measureApprovals); err != nil {
			return err
		}
	}
	b.reportApprovers(all)
	return nil
}

// visitApprovers does a part with each approver. Each round begins with another one.
func (b *agentBench) visitApprovers(ctx context.Context, all []*approver, round int, do func(context.Context, *approver) error) error {
	for i := range all {
		a := all[(i+round)%len(all)]
		if a.Missing != "" {
			continue
		}
		err := do(ctx, a)
		if err != nil && a.start != nil {
			err = b.recordMissing(ctx, a.subject, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// openApprover starts an approver, measures its tables and warms it up.
func (b *agentBench) openApprover(ctx context.Context, a *approver) error {
	a.rounds = make(map[string][]float64)
	if a.start != nil {
		b.logf("  starting %s", a.Name)
		if err := a.start(ctx, a); err != nil {
			return err
		}
	}
	if err := b.measureBytes(ctx, a); err != nil { // first, while no table has room left by rows that are gone
		return err
	}
	_, err := b.approveNext(ctx, a, choose(b.bench, 500, 50), 200)
	return err
}

// parkNext parks the next n calls.
func (b *agentBench) parkNext(ctx context.Context, a *approver, n, submitters int) ([]*pendingCall, time.Duration, func(), error) {
	first := b.next
	b.next += n
	return a.park(ctx, first, n, submitters)
}

// approveNext parks the next n calls, approves them, and returns the sorted times from the request to the arrival.
func (b *agentBench) approveNext(ctx context.Context, a *approver, n, perSecond int) ([]time.Duration, error) {
	calls, _, release, err := b.parkNext(ctx, a, n, 16)
	if err != nil {
		return nil, err
	}
	defer release()
	if a.read != nil {
		if err := a.read(ctx, calls); err != nil {
			return nil, err
		}
	}
	if err := b.approveAt(ctx, a.desk, calls, perSecond); err != nil {
		return nil, err
	}
	took := spansUntil(calls, arrivalOf)
	slices.Sort(took)
	return took, nil
}

// measureBytes measures the growth of all tables with their indexes.
func (b *agentBench) measureBytes(ctx context.Context, a *approver) error {
	n := choose(b.bench, 5000, 500)
	before, err := readDatabaseSize(ctx, a.pool)
	if err != nil {
		return err
	}
	_, _, release, err := b.parkNext(ctx, a, n, 16)
	if err != nil {
		return err
	}
	release()
	after, err := readDatabaseSize(ctx, a.pool)
	a.rounds[agentBytes] = []float64{float64(after-before) / float64(n)}
	return err
}

// readDatabaseSize returns the bytes of all tables and their indexes after VACUUM.
func readDatabaseSize(ctx context.Context, pool *pgxpool.Pool) (int64, error) {
	if _, err := pool.Exec(ctx, "VACUUM"); err != nil {
		return 0, fmt.Errorf("vacuum: %w", err)
	}
	var size int64
	err := pool.QueryRow(ctx, `SELECT sum(pg_total_relation_size(c.oid))::bigint
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind = 'r' AND n.nspname NOT IN ('pg_catalog', 'information_schema')`).Scan(&size)
	if err != nil {
		return 0, fmt.Errorf("read size of tables: %w", err)
	}
	return size, nil
}

// measureParking makes a round of parked calls.
func (b *agentBench) measureParking(ctx context.Context, a *approver) error {
	for _, load := range []struct {
		figure        string
		submitters, n int
	}{{agentOne, 1, choose(b.bench, 500, 50)}, {agentMany, 16, choose(b.bench, 2000, 200)}} {
		_, took, release, err := b.parkNext(ctx, a, load.n, load.submitters)
		if err != nil {
			return err
		}
		release()
		rate := float64(load.n) / took.Seconds()
		a.rounds[load.figure] = append(a.rounds[load.figure], rate)
		b.logf("  %2d clients, %s: %.0f parked/s", load.submitters, a.Name, rate)
	}
	return nil
}

// parkCrowd parks the calls that wait while others are approved.
func (b *agentBench) parkCrowd(ctx context.Context, a *approver) error {
	_, _, release, err := b.parkNext(ctx, a, choose(b.bench, 1000, 100), 16)
	if err == nil {
		a.closers = append(a.closers, release)
	}
	return err
}

// measureApprovals makes a round of approvals.
func (b *agentBench) measureApprovals(ctx context.Context, a *approver) error {
	for _, load := range []struct {
		half, most string
		perSecond  int
	}{{agentSlow50, agentSlow99, 50}, {agentFast50, agentFast99, 200}} {
		took, err := b.approveNext(ctx, a, choose(b.bench, 200, 40), load.perSecond)
		if err != nil {
			return err
		}
		half, most := percentile(took, 0.50, time.Millisecond), percentile(took, 0.99, time.Millisecond)
		a.rounds[load.half], a.rounds[load.most] = append(a.rounds[load.half], half), append(a.rounds[load.most], most)
		b.logf("  %d approvals/s, %s: %.2f ms, p99 %.2f ms", load.perSecond, a.Name, half, most)
	}
	return nil
}

func (b *agentBench) reportApprovers(all []*approver) {
	for _, a := range all {
		if a.Missing != "" {
			continue
		}
		for _, f := range agentFigures() {
			b.report.addOf(a.subject, f.name, f.unit, a.rounds[f.name])
		}
	}
}

// newHoldpoint makes the approver of the stage. Each call keeps a connection of its own until a round is over.
func (b *agentBench) newHoldpoint() *approver {
	a := &approver{
		subject: b.report.addSubject(agentsPhase, "Holdpoint", "Calls, approvals and events in PostgreSQL; the client waits on a held response. "+
			"The approval is bound to the arguments' digest, checked again and claimed before the call is sent. Any process can run the call."),
		desk: target{addr: b.addr, key: b.token}, pool: b.pool, read: b.readDigests,
	}
	a.Version = b.report.Machine.Revision
	a.park = func(ctx context.Context, first, n, submitters int) ([]*pendingCall, time.Duration, func(), error) {
		idle, err := b.readMetrics(ctx)
		if err != nil {
			return nil, 0, nil, err
		}
		clients, err := connectClients(ctx, b.gatedTarget(), n, submitters, submitters)
		if err != nil {
			return nil, 0, nil, err
		}
		held, took, err := clients.parkCalls(first)
		if err != nil {
			clients.close()
			return nil, 0, nil, err
		}
		calls := make([]*pendingCall, n)
		for i := range held {
			calls[i] = &pendingCall{heldCall: held[i], number: first + i}
		}
		return calls, took, func() {
			clients.close()
			if err := b.waitForGoroutines(ctx, idle["go_goroutines"]+100); err != nil {
				b.logf("  %v", err)
			}
		}, nil
	}
	return a
}

// newAgent makes the approver of a program in bench/peers, with a database of its own. It serves runs and approvals as serve.mjs says.
func (b *agentBench) newAgent(name, module, program, does string) *approver {
	a := &approver{subject: b.report.addSubject(agentsPhase, name, does)}
	a.start = func(ctx context.Context, a *approver) error {
		var err error
		if a.Version, err = b.npm.readVersion(module); err != nil {
			return err
		}
		databaseURL, drop, err := b.newDatabase(ctx)
		if err != nil {
			return err
		}
		a.closers = append(a.closers, drop)
		if a.pool, err = pgxpool.New(ctx, databaseURL); err != nil {
			return fmt.Errorf("open database: %w", err)
		}
		a.closers = append(a.closers, a.pool.Close)
		cmd := b.npm.startNode(ctx, program)
		cmd.Env = append(cmd.Env, "DATABASE_URL="+databaseURL, "SKILL_URL=http://"+b.skillAt+"/mcp")
		running, addr, err := startListener(cmd, filepath.Join(b.dir, program+".log"))
		if err != nil {
			return err
		}
		a.closers = append(a.closers, running.stop)
		a.desk = target{addr: addr}
		return nil
	}
	a.park = func(ctx context.Context, first, n, submitters int) ([]*pendingCall, time.Duration, func(), error) {
		doors, err := dialAll(ctx, target{addr: a.desk.addr, path: "/runs"}, submitters)
		if err != nil {
			return nil, 0, nil, err
		}
		defer doors.close()
		calls := make([]*pendingCall, n)
		began := time.Now()
		err = doors.forEach(func(k int) error {
			for i := k; i < n; i += submitters {
				id, err := doors.wires[k].startRun(parkedText(first + i))
				if err != nil {
					return err
				}
				calls[i] = &pendingCall{heldCall: heldCall{id: id}, number: first + i}
			}
			return nil
		})
		return calls, time.Since(began), func() {}, err
	}
	return a
}

// dialAll connects clients without sessions, one for each submitter.
func dialAll(ctx context.Context, t target, n int) (clientGroup, error) {
	c := clientGroup{make([]*wire, n), n}
	err := c.forEach(func(i int) (err error) {
		c.wires[i], err = dialTarget(ctx, t)
		return err
	})
	if err != nil {
		c.close()
	}
	return c, err
}

// startRun starts a run of an agent of bench/peers and returns its ID once it is parked.
func (w *wire) startRun(text string) (string, error) {
	body, err := json.Marshal(map[string]string{"text": text})
	if err != nil {
		return "", err
	}
	response, err := w.roundTrip(body)
	if err != nil {
		return "", err
	}
	var run struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(response.body, &run); err != nil || response.status != http.StatusOK || run.ID == "" {
		return "", fmt.Errorf("start a run: HTTP %d: %s", response.status, response.body)
	}
	return run.ID, nil
}

// column is a figure of a table.
type column struct{ name, unit string }

func agentFigures() []column {
	return []column{
		{agentOne, "calls/s"},
		{agentMany, "calls/s"},
		{agentBytes, "bytes/call"},
		{agentSlow50, "ms"},
		{agentSlow99, "ms"},
		{agentFast50, "ms"},
		{agentFast99, "ms"},
	}
}
