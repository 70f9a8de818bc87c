package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdpoint/holdpoint/internal/client"
	"github.com/holdpoint/holdpoint/internal/pause"
)

// reviewers is the number of connections that send decisions.
const reviewers = 8

// pendingCall is a parked call that a reviewer is about to approve.
type pendingCall struct {
	heldCall
	number int
	digest string
	hook   *hook // waits for the answer of a gate-only call; nil: the call is sent to the skill server

	sent, confirmed, arrived, answered time.Time
}

// measureApprovalPath measures the time from a reviewer's approval to the skill server while many other calls wait.
func measureApprovalPath(ctx context.Context, s *stage) error {
	waiting, warm, each := choose(s.bench, 1000, 100), choose(s.bench, 50, 10), choose(s.bench, 400, 40)
	profiled := 0
	if s.cpuProfile != "" {
		profiled = 200 * int(profileTime.Seconds()+2)
	}
	clients, err := connectClients(ctx, s.gatedTarget(), waiting+warm+2*each+profiled, 16, 16)
	if err != nil {
		return err
	}
	defer clients.close()
	calls, _, err := clients.parkCalls(0)
	if err != nil {
		return err
	}
	targets, err := s.readApprovals(ctx, calls, waiting)
	if err != nil {
		return err
	}
	if err := s.approveAll(ctx, targets[:warm], 50); err != nil {
		return err
	}
	for i, perSecond := range []int{50, 200} {
		group := targets[warm+i*each : warm+(i+1)*each]
		if err := s.approveAll(ctx, group, perSecond); err != nil {
			return err
		}
		s.reportApprovals(waiting, perSecond, group)
	}
	return s.profileLoad(ctx, "approval", func(ctx context.Context, _ time.Duration) error {
		return s.approveAll(ctx, targets[warm+2*each:], 200)
	})
}

// readApprovals reads the approvals of calls[first:], as a reviewer does.
func (s *stage) readApprovals(ctx context.Context, calls []heldCall, first int) ([]*pendingCall, error) {
	var targets []*pendingCall
	for i := first; i < len(calls); i++ {
		targets = append(targets, &pendingCall{heldCall: calls[i], number: i})
	}
	return targets, s.readDigests(ctx, targets)
}

func (s *stage) readDigests(ctx context.Context, calls []*pendingCall) error {
	for _, call := range calls {
		shown, err := client.Value(s.api.GetApproval(ctx, call.id))
		if err != nil {
			return fmt.Errorf("read approval %s: %w", call.id, err)
		}
		call.digest = shown.Digest
	}
	return nil
}

// approveAll approves calls at a steady rate. It waits until the skill server has each call and the client has its answer.
func (s *stage) approveAll(ctx context.Context, calls []*pendingCall, perSecond int) error {
	return s.approveAt(ctx, s.deskTarget(), calls, perSecond)
}

// deskTarget takes decisions.
func (s *stage) deskTarget() target { return target{addr: s.addr, key: s.token} }

// approveAt does the same at an address of its own. Only calls that are held have an answer to wait for.
func (s *stage) approveAt(ctx context.Context, at target, calls []*pendingCall, perSecond int) error {
	if err := sendApprovals(ctx, at, calls, perSecond); err != nil {
		return err
	}
	return s.readArrivals(ctx, calls)
}

// sendApprovals approves calls at a steady rate, and waits for the answers of their clients.
func sendApprovals(ctx context.Context, at target, calls []*pendingCall, perSecond int) error {
	desks := make(chan *wire, reviewers)
	for range reviewers {
		desk, err := dialTarget(ctx, at)
		if err != nil {
			return err
		}
		defer desk.close()
		desks <- desk
	}
	pause := time.Second / time.Duration(perSecond)
	var group errgroup.Group
	began := time.Now().Add(50 * time.Millisecond)
	for i, call := range calls {
		if call.hook != nil {
			group.Go(func() error { return call.hook.waitForEnd(call) })
		} else if call.response != nil {
			group.Go(call.waitForAnswer)
		}
		group.Go(func() error {
			time.Sleep(time.Until(began.Add(time.Duration(i) * pause)))
			desk := <-desks
			defer func() { desks <- desk }()
			return call.sendApproval(desk)
		})
	}
	return group.Wait()
}

func (c *pendingCall) waitForAnswer() error {
	err := c.waitForOutcome(time.Now().Add(wirePatience), marker+strconv.Itoa(c.number)+" ")
	c.answered = time.Now()
	return err
}

func (c *pendingCall) sendApproval(desk *wire) error {
	desk.path = "/api/v1/approvals/" + c.id + "/approve"
	body := fmt.Appendf(nil, `{"digest":%q}`, c.digest)
	c.sent = time.Now()
	response, err := desk.roundTrip(body)
	c.confirmed = time.Now()
	if err == nil && response.status != http.StatusOK {
		err = fmt.Errorf("approve call %s: HTTP %d: %s", c.id, response.status, response.body)
	}
	return err
}

// readArrivals reads from the skill server when each call arrived. It fails unless each call arrives exactly once. Calls without a client
// may not have arrived yet.
func (s *stage) readArrivals(ctx context.Context, calls []*pendingCall) error {
	for until := time.Now().Add(wirePatience); ; {
		text, err := s.get(ctx, s.skillAt, "/arrivals")
		if err != nil {
			return err
		}
		var seen map[string][]int64
		if err := json.Unmarshal(text, &seen); err != nil {
			return fmt.Errorf("read arrivals: %w", err)
		}
		var missing error
		for _, call := range calls {
			switch times := seen[strconv.Itoa(call.number)]; len(times) {
			case 0:
				missing = fmt.Errorf("call %s did not reach the skill server", call.id)
			case 1:
				call.arrived = time.Unix(0, times[0])
			default:
				return fmt.Errorf("call %s reached the skill server %d times", call.id, len(times))
			}
		}
		if missing == nil {
			return nil
		}
		if err := pause.For(ctx, 100*time.Millisecond); err != nil || time.Now().After(until) {
			return errors.Join(err, missing)
		}
	}
}

func (s *stage) reportApprovals(waiting, perSecond int, calls []*pendingCall) {
	at := fmt.Sprintf("%d parked, %d approvals/s: ", waiting, perSecond)
	for _, span := range []struct {
		name     string
		until    func(*pendingCall) time.Time
		p50, p99 float64 // aims
	}{
		{"approve request to arrival at the skill server", arrivalOf, 3, 10},
		{"approve request to its response", func(c *pendingCall) time.Time { return c.confirmed }, 0, 0},
		{"approve request to the agent's answer", answerOf, 0, 0},
	} {
		half, most := s.report.addTimes("approval", at+span.name+", ", spansUntil(calls, span.until))
		if span.p50 > 0 && perSecond == 50 {
			half.aimBelow(span.p50)
			most.aimBelow(span.p99)
		}
	}
}

func arrivalOf(c *pendingCall) time.Time { return c.arrived }

func answerOf(c *pendingCall) time.Time { return c.answered }

// spansUntil returns the times from the approve requests until something happened.
func spansUntil(calls []*pendingCall, until func(*pendingCall) time.Time) []time.Duration {
	took := make([]time.Duration, len(calls))
	for i, call := range calls {
		took[i] = until(call).Round(0).Sub(call.sent.Round(0)) // the wall clock, because the skill server uses it
	}
	return took
}
