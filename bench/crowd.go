package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/client"
	"github.com/holdpoint/holdpoint/internal/pause"
)

// crowdPhase is only measured alone, because it takes long.
const crowdPhase = "crowd"

// crowdFlags are the flags of both servers.
var crowdFlags = []string{"--max-connections=20000"}

// crowdRun is a crowd of parked calls at two servers. Calls are numbered. The clients of the first ones stay connected.
type crowdRun struct {
	*stage

	second    *stage
	connected int
	ids       []string // of all calls, by number

	mu   sync.Mutex
	held []heldAnswer
}

// measureCrowd measures many parked calls at two servers, of which a fifth has connected clients: what they cost, the queue's page,
// approvals of some of them, and the expiry of all others.
func measureCrowd(ctx context.Context, s *stage) error {
	timeout := choose(s.bench, 8*time.Minute, 15*time.Second)
	if _, err := s.api.UpdateSkill(ctx, "gated", client.SkillPatch{ApprovalTimeout: new(timeout.String())}); err != nil {
		return err
	}
	second, err := s.startSecond(ctx, crowdFlags...)
	if err != nil {
		return err
	}
	defer second.close()
	c := &crowdRun{stage: s, second: second, connected: choose(s.bench, 20_000, 400), ids: make([]string, choose(s.bench, 100_000, 2000))}
	if err := c.reportMemory("idle"); err != nil {
		return err
	}
	began, before := time.Now(), c.readMeter(ctx)
	var held errgroup.Group
	if err := c.parkAll(ctx, &held, timeout); err != nil {
		return err
	}
	took := time.Since(began)
	s.logf("  %d calls parked in %s", len(c.ids), took.Round(time.Second))
	c.addFigure("parked, with the sessions of connected clients", "calls/s", float64(len(c.ids))/took.Seconds())
	c.reportCPU(ctx, "parking", before, took)
	if err := c.measureWaiting(ctx); err != nil {
		return err
	}
	approved, err := c.approveSome(ctx, choose(s.bench, 1000, 40))
	if err != nil {
		return err
	}
	if err := c.awaitExpiry(ctx, timeout); err != nil {
		return err
	}
	if err := held.Wait(); err != nil {
		return err
	}
	return c.checkEnds(ctx, approved)
}

func (c *crowdRun) addFigure(name, unit string, value float64) *figure {
	return c.report.addFigure(crowdPhase, fmt.Sprintf("%d parked, %d connected: %s", len(c.ids), c.connected, name), unit, value)
}

func (c *crowdRun) listServers() []*stage { return []*stage{c.stage, c.second} }

// readMeter adds the second server's processor time.
func (c *crowdRun) readMeter(ctx context.Context) meter {
	m := c.stage.readMeter(ctx)
	micros, _ := readCPUMicros(c.second.serve.pid())
	m.serve += micros
	return m
}

// reportCPU adds the processor time since a reading.
func (c *crowdRun) reportCPU(ctx context.Context, during string, before meter, took time.Duration) {
	serve, database := c.readMeter(ctx).usedSince(before)
	if serve > 0 {
		c.addFigure(during+": processor time of both servers", "% of a core", 100*serve/float64(took.Microseconds()))
	}
	if database > 0 {
		c.addFigure(during+": processor time of PostgreSQL", "% of a core", 100*database/float64(took.Microseconds()))
	}
}

func (c *crowdRun) reportMemory(when string) error {
	for i, s := range c.listServers() {
		now, peak, err := readMemory(s.serve.pid())
		if err != nil {
			return err
		}
		c.addFigure(fmt.Sprintf("memory of server %d, %s", i+1, when), "MiB", float64(now)/(1<<20))
		c.addFigure(fmt.Sprintf("memory of server %d, peak until then", i+1), "MiB", float64(peak)/(1<<20))
	}
	return nil
}

// parkAll parks all calls, half of them at each server. held gets the processes of connected clients.
func (c *crowdRun) parkAll(ctx context.Context, held *errgroup.Group, timeout time.Duration) error {
	var parking errgroup.Group
	each, others := c.connected/2, (len(c.ids)-c.connected)/2
	for i, s := range c.listServers() {
		parked := make(chan error, 1)
		order := holdOrder{Target: holdTargetOf(s.gatedTarget()), First: i * each, Calls: each, Patience: timeout + 10*time.Minute}
		held.Go(func() error { return c.runHolder(ctx, order, parked) })
		parking.Go(func() error { return <-parked })
		parking.Go(func() error { return c.parkAndLeave(ctx, s, c.connected+i*others, others) })
	}
	return parking.Wait()
}

// parkAndLeave parks n calls at a server, and disconnects their clients.
func (c *crowdRun) parkAndLeave(ctx context.Context, s *stage, first, n int) error {
	const most, submitters = 1000, 8 // clients at once
	for done := 0; done < n; done += most {
		clients, err := connectClients(ctx, s.gatedTarget(), min(most, n-done), submitters, submitters)
		if err != nil {
			return err
		}
		calls, _, err := clients.parkCalls(first + done)
		clients.close()
		if err != nil {
			return err
		}
		for i, call := range calls {
			c.ids[first+done+i] = call.id
		}
	}
	return nil
}

// measureWaiting measures what the calls cost while they wait, and the queue's page.
func (c *crowdRun) measureWaiting(ctx context.Context) error {
	var waiting int
	if err := c.pool.QueryRow(ctx, `SELECT count(*) FROM approvals WHERE status = 'pending'`).Scan(&waiting); err != nil {
		return fmt.Errorf("count parked calls: %w", err)
	}
	if waiting != len(c.ids) {
		return fmt.Errorf("%d calls are parked, want %d", waiting, len(c.ids))
	}
	var group errgroup.Group
	for _, s := range c.listServers() {
		group.Go(func() error {
			_, err := s.waitForSteadyMemory(ctx)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := c.reportMemory("parked"); err != nil {
		return err
	}
	began, before := time.Now(), c.readMeter(ctx)
	if err := pause.For(ctx, choose(c.bench, 20*time.Second, time.Second)); err != nil {
		return err
	}
	c.reportCPU(ctx, "waiting", before, time.Since(began))
	var took []time.Duration
	for _, s := range c.listServers() {
		d, err := s.signIn(ctx, s.token)
		if err != nil {
			return err
		}
		defer d.close()
		for range choose(c.bench, 100, 5) {
			one, err := d.timePage(ctx, "/")
			if err != nil {
				return err
			}
			took = append(took, one)
		}
	}
	c.addTimes("queue page, to its last byte, ", took).aimBelow(100)
	return nil
}

// addTimes adds the median, the p99 and the longest of durations, and returns the p99.
func (c *crowdRun) addTimes(name string, took []time.Duration) *figure {
	slices.Sort(took)
	c.addFigure(name+"p50", "ms", percentile(took, 0.50, time.Millisecond))
	most := c.addFigure(name+"p99", "ms", percentile(took, 0.99, time.Millisecond))
	c.addFigure(name+"longest", "ms", percentile(took, 1, time.Millisecond))
	return most
}

// timePage returns how long a page takes to its last byte.
func (d *dashboardClient) timePage(ctx context.Context, path string) (time.Duration, error) {
	began := time.Now()
	_, err := d.fetchPage(ctx, path, false)
	return time.Since(began), err
}

// approveSome approves n calls at random, half of them at each server, and returns their numbers.
func (c *crowdRun) approveSome(ctx context.Context, n int) (map[int]bool, error) {
	approved := map[int]bool{}
	var calls []*pendingCall
	for _, number := range rand.Perm(len(c.ids))[:n] { //nolint:gosec // G404: any calls will do
		approved[number] = true
		calls = append(calls, &pendingCall{heldCall: heldCall{id: c.ids[number]}, number: number})
	}
	if err := c.readDigests(ctx, calls); err != nil {
		return nil, err
	}
	var group errgroup.Group
	for i, s := range c.listServers() {
		group.Go(func() error { return s.approveAll(ctx, calls[i*n/2:(i+1)*n/2], 25) })
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	took := make([]time.Duration, n)
	for i, call := range calls {
		took[i] = call.arrived.Round(0).Sub(call.sent.Round(0)) // the wall clock, because the skill server uses it
	}
	c.addTimes("50 approvals/s, approve request to arrival, ", took)
	return approved, nil
}

// awaitExpiry waits until no call waits any more, and measures the queue's page meanwhile.
func (c *crowdRun) awaitExpiry(ctx context.Context, timeout time.Duration) error {
	var left float64
	if err := c.pool.QueryRow(ctx, `SELECT extract(epoch FROM min(deadline) - holdpoint_now())::float8 FROM approvals WHERE status = 'pending'`).Scan(&left); err != nil {
		return fmt.Errorf("read deadlines: %w", err)
	}
	if left < 0 {
		return fmt.Errorf("calls expired %.0f s before the measurements of waiting calls were done", -left)
	}
	c.logf("  waiting %.0f s for the first deadline", left)
	if err := pause.For(ctx, time.Duration(left*float64(time.Second))); err != nil {
		return err
	}
	d, err := c.signIn(ctx, c.token)
	if err != nil {
		return err
	}
	defer d.close()
	began, before := time.Now(), c.readMeter(ctx)
	var took []time.Duration
	for waiting := true; waiting; {
		one, err := d.timePage(ctx, "/")
		if err != nil {
			return err
		}
		took = append(took, one)
		if time.Since(began) > timeout+5*time.Minute {
			return fmt.Errorf("calls still wait %s after the first deadline", time.Since(began).Round(time.Second))
		}
		if err := pause.For(ctx, 200*time.Millisecond); err != nil {
			return err
		}
		if err := c.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM approvals WHERE status = 'pending')`).Scan(&waiting); err != nil {
			return fmt.Errorf("read parked calls: %w", err)
		}
	}
	c.reportCPU(ctx, "expiring", before, time.Since(began))
	c.addTimes("queue page while calls expire, ", took)
	return nil
}

// checkEnds checks that the approved calls were executed once and all others expired, also for their clients. It adds how late they
// expired.
func (c *crowdRun) checkEnds(ctx context.Context, approved map[int]bool) error {
	var succeeded, expired, recorded int
	err := c.pool.QueryRow(ctx, `SELECT count(*) FILTER (WHERE status = 'succeeded'), count(*) FILTER (WHERE status = 'expired'),
		(SELECT count(DISTINCT subject_id) FROM audit_events WHERE action = $1) FROM calls`, audit.ApprovalExpired).Scan(&succeeded, &expired, &recorded)
	if err != nil {
		return fmt.Errorf("count calls: %w", err)
	}
	if succeeded != len(approved) || expired != len(c.ids)-len(approved) || recorded != expired {
		return fmt.Errorf("%d calls succeeded, %d expired and %d are recorded so, of %d with %d approved", succeeded, expired, recorded, len(c.ids), len(approved))
	}
	text, err := c.get(ctx, c.skillAt, "/arrivals")
	if err != nil {
		return err
	}
	var arrived map[string][]int64
	if err := json.Unmarshal(text, &arrived); err != nil {
		return fmt.Errorf("read arrivals: %w", err)
	}
	for number, times := range arrived {
		if n, err := strconv.Atoi(number); err != nil || !approved[n] || len(times) != 1 {
			return fmt.Errorf("call %s arrived %d times", number, len(times))
		}
	}
	late, deadlines, err := c.readDelays(ctx)
	if err != nil {
		return err
	}
	c.addTimes("deadline to the recorded expiry, ", late).aimBelow(5000)
	late = nil
	if len(c.held) != c.connected {
		return fmt.Errorf("%d clients have an answer, want %d", len(c.held), c.connected)
	}
	for _, answer := range c.held {
		if answer.Executed != approved[answer.Number] || answer.Expired == answer.Executed {
			return fmt.Errorf("the client of call %d was told %s", answer.Number, answer.Text)
		}
		if answer.Expired {
			late = append(late, answer.At.Sub(deadlines[c.ids[answer.Number]]))
		}
	}
	c.addTimes("deadline to the client's answer, ", late)
	return nil
}

// readDelays returns the times from deadlines to recorded expiries, and the deadlines by call.
func (c *crowdRun) readDelays(ctx context.Context) ([]time.Duration, map[string]time.Time, error) {
	rows, err := c.pool.Query(ctx, `SELECT c.id::text, a.deadline, c.finished_at FROM calls c JOIN approvals a ON a.call_id = c.id WHERE c.status = 'expired'`)
	if err != nil {
		return nil, nil, fmt.Errorf("read expiries: %w", err)
	}
	defer rows.Close()
	var late []time.Duration
	deadlines := map[string]time.Time{}
	for rows.Next() {
		var id string
		var deadline, finished time.Time
		if err := rows.Scan(&id, &deadline, &finished); err != nil {
			return nil, nil, fmt.Errorf("read expiries: %w", err)
		}
		late, deadlines[id] = append(late, finished.Sub(deadline)), deadline
	}
	return late, deadlines, rows.Err()
}

// holdRole is the argument that makes this program hold connected clients. One process may not open enough files for all of them.
const holdRole = "hold-clients"

// holdOrder tells a process which calls to park and hold.
type holdOrder struct {
	Target   holdTarget    `json:"target"`
	First    int           `json:"first"` // number of the first call
	Calls    int           `json:"calls"`
	Patience time.Duration `json:"patience"`
}

// holdTarget is a [target] as JSON.
type holdTarget struct {
	Addr string `json:"addr"`
	Path string `json:"path"`
	Key  string `json:"key"`
	Tool string `json:"tool"`
}

func holdTargetOf(t target) holdTarget { return holdTarget{t.addr, t.path, t.key, t.tool} }

// heldAnswer is the answer that a connected client got.
type heldAnswer struct {
	Number   int       `json:"number"`
	At       time.Time `json:"at"`
	Executed bool      `json:"executed"`
	Expired  bool      `json:"expired"`
	Text     string    `json:"text"` // if it is neither
}

// runHolder runs a process that parks and holds calls until each has its answer. parked gets an error, or nil when all are parked.
func (c *crowdRun) runHolder(ctx context.Context, order holdOrder, parked chan<- error) (err error) {
	var ids []string
	defer func() {
		if ids == nil {
			parked <- err
		}
	}()
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("hold clients: %w", err)
	}
	text, err := json.Marshal(order)
	if err != nil {
		return fmt.Errorf("hold clients: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, holdRole) //nolint:gosec // G204: this program itself
	cmd.Stdin, cmd.Stderr = bytes.NewReader(text), c.stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("hold clients: %w", err)
	}
	defer func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // its errors are on stderr
	}()
	said := json.NewDecoder(out)
	if err := said.Decode(&ids); err != nil {
		return fmt.Errorf("hold clients: %w", err)
	}
	copy(c.ids[order.First:], ids)
	parked <- nil
	var answers []heldAnswer
	if err := said.Decode(&answers); err != nil {
		return fmt.Errorf("hold clients: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = append(c.held, answers...)
	return nil
}

// holdClients parks calls, prints their ids, waits for their answers, and prints these.
func holdClients(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	var order holdOrder
	if err := json.NewDecoder(stdin).Decode(&order); err != nil {
		return fmt.Errorf("read order: %w", err)
	}
	if err := checkFileLimit(order.Calls + 100); err != nil {
		return err
	}
	at := target{addr: order.Target.Addr, path: order.Target.Path, key: order.Target.Key, tool: order.Target.Tool}
	clients, err := connectClients(ctx, at, order.Calls, 8, order.Calls)
	if err != nil {
		return err
	}
	defer clients.close()
	calls, _, err := clients.parkCalls(order.First)
	if err != nil {
		return err
	}
	ids := make([]string, len(calls))
	answers := make([]heldAnswer, len(calls))
	var waiting errgroup.Group
	until := time.Now().Add(order.Patience)
	for i, call := range calls {
		ids[i] = call.id
		waiting.Go(func() error {
			text, err := call.waitForAnswer(until)
			answers[i] = readHeldAnswer(order.First+i, text)
			return err
		})
	}
	out := json.NewEncoder(stdout)
	if err := out.Encode(ids); err != nil {
		return fmt.Errorf("print calls: %w", err)
	}
	if err := waiting.Wait(); err != nil {
		return err
	}
	return out.Encode(answers)
}

func readHeldAnswer(number int, text []byte) heldAnswer {
	a := heldAnswer{
		Number: number, At: time.Now(),
		Executed: bytes.Contains(text, []byte(marker+strconv.Itoa(number)+" ")), Expired: bytes.Contains(text, []byte(`"status":"expired"`)),
	}
	if a.Executed == a.Expired {
		a.Text = string(text)
	}
	return a
}
