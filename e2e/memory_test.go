package e2e_test

import (
	"fmt"
	"maps"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/e2e/internal/skill"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/failpoint"
)

// TestLimitSurvivesKill: a limit of 5,000 an hour lets two of the calls of 2,000 pass that come in at once in two processes, one of which is
// killed meanwhile and replaced. A call whose process died counts, and one that was not recorded does not.
func TestLimitSurvivesKill(t *testing.T) {
	t.Parallel()
	for _, name := range []string{failpoint.SubmitBeforeCommit, failpoint.SubmitAfterCommit, failpoint.FinishBeforeCommit} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			counting := skill.NewCounting(t)
			armed, other := w.serveArmed(name), w.startServer()
			w.applyManifest(other, oneSkill(counting.URL, "")+`rules:
  - {name: limit, skills: [counting], when: 'spent("n", "1h") + args.n <= 5000', effect: allow}
`)
			agent := w.newAgent(other, "worker")
			first := agent
			first.URL = armed.URL
			if name == failpoint.FinishBeforeCommit { // a call must end in the armed process
				callTogether(t, 64, 0, first)
			} else {
				callTogether(t, 64, 0, first, agent)
			}
			armed.AwaitKilled(t)
			restarted := agent
			restarted.URL = w.startServer().URL
			callTogether(t, 64, 1, restarted, agent)
			if _, err := agent.CallTool(t.Context(), "counting__record", `{"n":1000}`); err != nil { // the rest
				t.Error(err)
			}
			conn, err := pgx.Connect(t.Context(), w.databaseURL)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(t.Context())
			var counts map[string]int
			eventually.Succeeds(t, patience, "all calls that were sent have ended", func() error {
				rows, _ := conn.Query(t.Context(), `SELECT status, count(*) FROM calls WHERE claimed_at IS NOT NULL GROUP BY status`)
				counts = map[string]int{}
				var status string
				var n int
				_, err := pgx.ForEachRow(rows, []any{&status, &n}, func() error { counts[status] = n; return nil })
				if err == nil && counts["executing"] > 0 {
					err = fmt.Errorf("%v", counts)
				}
				return err
			})
			want := map[string]int{"succeeded": 3}
			if name != failpoint.SubmitBeforeCommit {
				want = map[string]int{"succeeded": 2, "unknown": 1}
			}
			if !maps.Equal(counts, want) && !maps.Equal(counts, map[string]int{"succeeded": 3}) {
				t.Errorf("the calls that were sent ended as %v, want %v", counts, want)
			}
			if n := counting.Count("2000"); n > 2 {
				t.Errorf("%d calls of 2,000 arrived", n)
			}
		})
	}
}

// callTogether makes calls of 2,000 at the same time, and waits until each was answered or its process died.
func callTogether(t *testing.T, n, round int, agents ...holdpoint.Agent) {
	t.Helper()
	var together sync.WaitGroup
	for i := range n {
		together.Go(func() {
			_, _ = agents[i%len(agents)].CallTool(t.Context(), "counting__record", fmt.Sprintf(`{"n":2000,"note":"%d of round %d"}`, i, round))
		})
	}
	together.Wait()
}
