package e2e_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/e2e/internal/skill"
	"github.com/holdpoint/holdpoint/internal/pause"
)

// TestDecideAgainstDeadline: an approval that is accepted right before the deadline counts, and a late one does not.
func TestDecideAgainstDeadline(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	counting := skill.NewCounting(t)
	servers := [2]*holdpoint.Process{w.startServer(), w.startServer()}
	w.applyManifest(servers[0], oneSkill(counting.URL, "approval_timeout: 20s\n"))
	agent := w.newAgent(servers[0], "worker")
	var all sync.WaitGroup
	for n := range 100 {
		all.Go(func() {
			mine := agent
			mine.URL = servers[n%2].URL
			if err := mine.CallAndLeave(t.Context(), "counting__record", fmt.Sprintf(`{"n":%d}`, n)); err != nil {
				t.Errorf("park call %d: %v", n, err)
			}
		})
	}
	all.Wait()
	parked, err := holdpoint.List[holdpoint.Approval](t.Context(), operatorAPI(servers[0]), "approvals", "")
	if err != nil || len(parked) != 100 {
		t.Fatalf("%d calls are parked, want 100: %v", len(parked), err)
	}
	told := make([]error, len(parked))
	for i, shown := range parked {
		all.Go(func() {
			// Shortly before or after the deadline, by the reviewer's clock.
			wait := time.Until(shown.Deadline) + rand.N(400*time.Millisecond) - 200*time.Millisecond
			_ = pause.For(t.Context(), wait)
			told[i] = operatorAPI(servers[i%2]).Approve(t.Context(), shown)
		})
	}
	all.Wait()
	count := map[string]int{}
	for i, shown := range parked {
		c := awaitCall(t, operatorAPI(servers[0]), shown.CallID, func(c holdpoint.Call) error {
			if !c.Final() {
				return errors.New("it has not ended")
			}
			return nil
		})
		count[c.Status]++
		arrived := counting.Count(argumentN(shown.Arguments))
		switch {
		case told[i] == nil && c.Status == "succeeded" && arrived == 1:
		case told[i] != nil && c.Status == "expired" && arrived == 0:
			wantProblem(t, told[i], 409, "expired")
		default:
			t.Errorf("the reviewer was told %v; the call is %s and arrived %d times", told[i], c.Status, arrived)
		}
	}
	t.Logf("calls: %v", count)
}
