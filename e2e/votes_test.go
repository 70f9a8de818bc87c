package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/e2e/internal/skill"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/pause"
)

// TestVotesUnderKills: eight people vote at eight processes, which are killed again and again. Each call is approved by exactly three of
// them, and sent once.
func TestVotesUnderKills(t *testing.T) {
	t.Parallel()
	const processes, calls = 8, 12
	w := newWorld(t)
	counting := skill.NewCounting(t)
	v := &voting{t: t, w: w}
	for range processes {
		v.servers = append(v.servers, w.startServer())
	}
	w.applyManifest(v.servers[0], strings.Replace(oneSkill(counting.URL, "approval_timeout: 1h\npolicy: three\n"),
		"agents:", "policies:\n  - {name: three, any: [{all: [{count: 3}]}]}\nagents:", 1))
	tokens := make([]string, processes)
	for i := range tokens {
		tokens[i] = w.invitePerson(v.servers[0], fmt.Sprintf("voter-%d", i), "reviewer")
	}
	agent := w.newAgent(v.servers[0], "worker")
	for n := range calls {
		if err := agent.CallAndLeave(t.Context(), "counting__record", fmt.Sprintf(`{"n":%d}`, n)); err != nil {
			t.Fatal(err)
		}
	}
	parked, err := holdpoint.List[holdpoint.Approval](t.Context(), operatorAPI(v.servers[0]), "approvals", "status=pending")
	if err != nil || len(parked) != calls {
		t.Fatalf("%d calls are parked: %v", len(parked), err)
	}

	ctx, calm := context.WithCancel(t.Context())
	var killer, people sync.WaitGroup
	killer.Go(func() { v.killInTurn(ctx) })
	for i, token := range tokens {
		people.Go(func() {
			for _, shown := range parked {
				v.vote(i, token, shown)
			}
		})
	}
	people.Wait()
	calm()
	killer.Wait()
	v.check(calls, counting)
}

// voting has the processes of [TestVotesUnderKills].
type voting struct {
	t *testing.T
	w *world

	mu      sync.Mutex
	servers []*holdpoint.Process
	killed  int
}

func (v *voting) serverAt(i int) *holdpoint.Process {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.servers[i]
}

// killInTurn kills one process after the other and starts it again, until ctx ends.
func (v *voting) killInTurn(ctx context.Context) {
	for i := 0; pause.For(ctx, 2*time.Second) == nil; i = (i + 1) % len(v.servers) {
		o := v.w.serverOptions()
		o.Port = v.serverAt(i).Port
		v.serverAt(i).Kill()
		started, err := program.TryStart(v.t, o)
		if err == nil {
			err = eventually.Poll(v.t.Context(), patience, started.Ready)
		}
		if err != nil {
			v.t.Error(err)
			return
		}
		v.mu.Lock()
		v.servers[i] = started
		v.killed++
		v.mu.Unlock()
	}
}

// vote approves a call at one process, and tries again until the process answers.
func (v *voting) vote(i int, token string, shown holdpoint.Approval) {
	err := eventually.Poll(v.t.Context(), 2*patience, func() error {
		err := holdpoint.API{URL: v.serverAt(i).URL, Token: token}.Approve(v.t.Context(), shown)
		var refused *holdpoint.Problem
		if !errors.As(err, &refused) {
			return err
		}
		if !alreadyDecided(err) && refused.Code != "voted" { // the answer to the first attempt was lost
			if refused.Status < http.StatusInternalServerError {
				v.t.Errorf("vote on %s at process %d: %v", shown.ID, i, refused)
				return nil
			}
			return err
		}
		return nil
	})
	if err != nil {
		v.t.Errorf("vote on %s at process %d: %v", shown.ID, i, err)
	}
}

func (v *voting) check(calls int, counting *skill.Counting) {
	v.t.Helper()
	c := &chaos{t: v.t, servers: [2]*holdpoint.Process{v.serverAt(0), v.serverAt(1)}}
	settled := c.awaitSettled("agent=worker")
	if len(settled) != calls || v.killed == 0 {
		v.t.Errorf("%d calls, %d processes killed", len(settled), v.killed)
	}
	arrivals, count := counting.All(), map[string]int{}
	events, err := holdpoint.List[holdpoint.Event](v.t.Context(), operatorAPI(v.serverAt(0)), "audit", "")
	if err != nil {
		v.t.Fatal(err)
	}
	votes := map[string]map[string]int{}
	for _, e := range events {
		if votes[e.Subject] == nil {
			votes[e.Subject] = map[string]int{}
		}
		votes[e.Subject][e.Action]++
	}
	for _, call := range settled {
		count[call.Status]++
		n, said := argumentN(call.Arguments), votes[call.ID]
		if said["approval.voted"] != 2 || said["approval.approved"] != 1 {
			v.t.Errorf("call %s: %v", n, said)
		}
		if arrived := arrivals[n]; call.Status == "succeeded" && arrived != 1 || call.Status == "unknown" && arrived > 1 ||
			call.Status != "succeeded" && call.Status != "unknown" {
			v.t.Errorf("call %s is %s (%s) and arrived %d times", n, call.Status, call.Message, arrived)
		}
	}
	v.t.Logf("calls: %v, %d processes killed", count, v.killed)
}
