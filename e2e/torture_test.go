package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/e2e/internal/skill"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/pause"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/postgrestest/faultproxy"
)

const (
	tortureClients = 16
	largeResult    = 14 << 20
	changeInterval = 3 * time.Second  // between two changes of a skill
	attemptTime    = 10 * time.Second // of a repeated request

	// recoveryLimit is how soon after the faults each process must work again, unless the machine runs other tests.
	recoveryLimit = 30 * time.Second
)

// torture has two servers that lose their database and are frozen. Each reaches the database through its own faulty
// proxy.
type torture struct {
	t       *testing.T
	w       *world
	db      *postgres.DB // the database without a proxy
	proxies [2]*faultproxy.Proxy
	servers [2]*holdpoint.Process
	server  *skill.Raw
	agent   holdpoint.Agent
	tokens  []string // of the reviewers
	strict  bool     // whether recoveryLimit applies

	numbers atomic.Int64 // the last used argument n

	mu         sync.Mutex
	faults     map[string]int
	arrivals   map[string][]tortureArrival // by call
	told       map[string]map[callEnd]bool // responses to clients, by call
	decided    map[string]map[string]bool  // responses to reviewers, by call
	urls       map[int64]string            // path of the skill "changing", by revision
	violations map[string][]string         // by kind
	recovered  [len(processNames)]time.Duration
	decisions  int
}

var processNames = [2]string{"first process", "second process"}

// tortureArrival is a request that reached the skill server.
type tortureArrival struct {
	at        time.Time
	path      string
	arguments string
	large     bool
	answered  bool
}

// callEnd is a call's end in a response to a client.
type callEnd struct{ status, effect string }

// tortureTime returns the duration of the faults: HOLDPOINT_TORTURE or 20 seconds.
func tortureTime(t *testing.T) (time.Duration, bool) {
	t.Helper()
	text := os.Getenv("HOLDPOINT_TORTURE")
	if text == "" {
		return 20 * time.Second, false
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		t.Fatalf("HOLDPOINT_TORTURE=%q: want a duration, such as 10m", text)
	}
	return d, true
}

// TestTorture breaks the database, its connections, and the processes in random order, while clients, reviewers and an
// operator work. Then it compares each call with the requests at its skill server, the responses to people, and the
// audit log. It prints a table of results.
func TestTorture(t *testing.T) {
	t.Parallel()
	duration, strict := tortureTime(t)
	s := newTorture(t, strict)

	work, stopWork := context.WithCancel(t.Context())
	review, stopReview := context.WithCancel(t.Context())
	var clients, others sync.WaitGroup
	for range tortureClients {
		clients.Go(func() {
			for pause.For(work, rand.N(200*time.Millisecond)) == nil {
				s.makeCall()
			}
		})
	}
	others.Go(func() { s.reviewAll(review) })
	others.Go(func() { s.changeSkill(work) })

	faults, stopFaults := context.WithTimeout(t.Context(), duration)
	s.makeFaults(faults)
	stopFaults()
	s.awaitRecovery()
	stopWork()
	clients.Wait()
	calls := s.awaitEnds()
	stopReview()
	others.Wait()
	s.readSkill()

	s.checkCalls(calls)
	s.printTable(calls, duration)
}

func newTorture(t *testing.T, strict bool) *torture {
	t.Helper()
	s := &torture{
		t: t, strict: strict, faults: map[string]int{}, arrivals: map[string][]tortureArrival{}, told: map[string]map[callEnd]bool{},
		decided: map[string]map[string]bool{}, urls: map[int64]string{}, violations: map[string][]string{},
	}
	s.openDatabase()
	s.w = &world{t: t, dataDir: passableDir(t)}
	for i := range s.servers {
		s.proxies[i] = faultproxy.Start(t, s.db.URL())
		s.w.databaseURL = s.proxies[i].URL()
		s.servers[i] = s.w.startServer()
	}
	s.server = (&skill.Raw{List: listTortureTools, Call: s.recordArrival}).Serve(t)
	s.w.applyManifest(s.servers[0], s.skillsManifest())
	for i := range reviewers {
		s.tokens = append(s.tokens, s.w.invitePerson(s.servers[0], fmt.Sprintf("reviewer-%d", i), "reviewer"))
	}
	s.agent = s.w.newAgent(s.servers[0], "worker")
	return s
}

// openDatabase starts a separate PostgreSQL, because the test breaks it. Asynchronous commits are not flushed, so a
// crash loses them.
func (s *torture) openDatabase() {
	s.t.Helper()
	var err error
	s.db, err = postgres.Open(s.t.Context(), postgres.Config{
		DataDir:  passableDir(s.t),
		Settings: map[string]string{"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off", "max_connections": "200"},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), time.Minute)
		defer cancel()
		if err := s.db.Close(ctx); err != nil {
			s.t.Error(err)
		}
	})
}

// passableDir returns a directory that the accounts of databases and skills can traverse.
func passableDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for _, folder := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(folder, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func (s *torture) skillsManifest() string {
	var b strings.Builder
	b.WriteString("skills:\n")
	for _, name := range []string{"steady", "changing", "direct"} {
		fmt.Fprintf(&b, `  - name: %s
    transport: http
    url: %s/%s
    identity_headers: true
    approval_timeout: 1h
    call_timeout: 5m
    auto_approve: %t
`, name, s.server.URL, name, name == "direct")
	}
	b.WriteString("agents:\n  - name: worker\n    wait_budget: 2s\n    skills: [steady, changing, direct]\n")
	return b.String()
}

func listTortureTools(w http.ResponseWriter, r *skill.Request) {
	r.Answer(w, `{"tools":[`+skill.RecordTool+`,`+strings.Replace(skill.RecordTool, `"record"`, `"large"`, 1)+`]}`)
}

// recordArrival records a request and answers it after a delay.
func (s *torture) recordArrival(w http.ResponseWriter, r *skill.Request) {
	id, large := r.HTTP.Header.Get("X-Holdpoint-Call"), r.Params.Name == "large"
	s.mu.Lock()
	number := len(s.arrivals[id])
	s.arrivals[id] = append(s.arrivals[id], tortureArrival{
		at: time.Now(), path: r.HTTP.URL.Path, arguments: string(r.Params.Arguments), large: large,
	})
	s.mu.Unlock()
	pace := 300 * time.Millisecond
	if rand.IntN(10) == 0 {
		pace = 5 * time.Second // so that some calls are always in flight
	}
	<-time.After(rand.N(pace))
	text := "recorded " + r.N()
	if large {
		text += strings.Repeat(" ", largeResult)
	}
	r.Answer(w, `{"content":[{"type":"text","text":"`+text+`"}]}`)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arrivals[id][number].answered = true
}

// anyServer returns one of the processes.
func (s *torture) anyServer() *holdpoint.Process { return s.servers[rand.IntN(len(s.servers))] }

// makeCall is a client that disconnects and retries at either process until it knows how its call ended.
func (s *torture) makeCall() {
	n := s.numbers.Add(1)
	tool := []string{"steady__record", "steady__record", "steady__record", "changing__record", "direct__record"}[rand.IntN(5)]
	if n%40 == 0 {
		tool = []string{"steady__large", "direct__large"}[rand.IntN(2)]
	}
	meta := "{}"
	if keyed := n%2 == 0; keyed {
		meta = fmt.Sprintf(`{"dev.holdpoint/idempotency_key":"key-%d"}`, n)
	}
	if err := s.callUntilTold(s.anyServer, tool, n, meta, rand.N[time.Duration]); err != nil {
		s.reportViolationf("lost", "the client of call n = %d (%s, %s) was not told its end: %v", n, tool, meta, err)
	}
}

// callUntilTold repeats a call until it has the outcome, and checks each answer. The first attempts have short timeouts.
func (s *torture) callUntilTold(
	server func() *holdpoint.Process, tool string, n int64, meta string, patienceOf func(time.Duration) time.Duration,
) error {
	id := ""
	attempt := 0
	return eventually.Poll(s.t.Context(), 3*patience, func() error { // on a slow machine, a large result alone takes half a minute
		attempt++
		ctx, leave := context.WithTimeout(s.t.Context(), 10*time.Millisecond+patienceOf(min(time.Duration(attempt)*2*time.Second, 2*time.Minute)))
		defer leave()
		agent := s.agent
		agent.URL = server().URL
		var answer holdpoint.Answer
		var err error
		if id != "" && rand.IntN(2) == 0 {
			answer, err = agent.Await(ctx, id)
		} else {
			answer, err = agent.CallToolWith(ctx, tool, fmt.Sprintf(`{"n":%d}`, n), meta)
		}
		if err != nil {
			return err
		}
		call := answer.Call()
		if call.ID == "" { // successful results may not name their call
			if text := answer.Text(); strings.TrimRight(text, " ") != fmt.Sprint("recorded ", n) {
				return fmt.Errorf("answer %.300s, error %+v", answer.Raw, answer.Error)
			} else if strings.HasSuffix(tool, "large") && len(text) < largeResult {
				s.reportViolationf("results dropped", "the client of call n = %d was told %d bytes", n, len(text))
			}
		}
		if id != "" && call.ID != "" && call.ID != id && meta != "{}" {
			s.reportViolationf("lost", "the key of call n = %d was for call %s, and is for %s", n, id, call.ID)
		}
		id = call.ID
		if answer.Pending() {
			return errors.New("the call is pending")
		}
		if id != "" {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.told[id] == nil {
				s.told[id] = map[callEnd]bool{}
			}
			s.told[id][callEnd{call.Status, call.Effect}] = true
		}
		return nil
	})
}

// reviewAll finds approvals, and makes reviewers decide each of them twice.
func (s *torture) reviewAll(ctx context.Context) {
	type task struct {
		shown   holdpoint.Approval
		approve bool
	}
	tasks := make(chan task, 1000)
	var people sync.WaitGroup
	for i := range reviewers {
		people.Go(func() {
			for each := range tasks {
				err := eventually.Poll(s.t.Context(), patience, func() error { return s.sendDecision(s.tokens[i], each.shown, each.approve) })
				if err != nil {
					s.reportViolationf("decisions lost", "decide %s: %v", each.shown.ID, err)
				}
			}
		})
	}
	seen := map[string]bool{}
	for pause.For(ctx, 100*time.Millisecond) == nil {
		api := operatorAPI(s.anyServer())
		attempt, cancel := context.WithTimeout(ctx, attemptTime)
		list, err := holdpoint.List[holdpoint.Approval](attempt, api, "approvals", "status=pending")
		cancel()
		if err != nil {
			continue // the next attempt may reach a running process
		}
		for _, shown := range list {
			if seen[shown.ID] {
				continue
			}
			seen[shown.ID] = true
			for range 2 {
				tasks <- task{shown, rand.IntN(6) > 0}
			}
		}
	}
	close(tasks)
	people.Wait()
}

// sendDecision sends a decision to a process and records the decision in its response.
func (s *torture) sendDecision(token string, shown holdpoint.Approval, approve bool) error {
	ctx, cancel := context.WithTimeout(s.t.Context(), attemptTime)
	defer cancel()
	api := holdpoint.API{URL: s.anyServer().URL, Token: token}
	var err error
	outcome := "approved"
	if approve {
		err = api.Approve(ctx, shown)
	} else {
		outcome, err = "rejected", api.Reject(ctx, shown, "chance")
	}
	var refused *holdpoint.Problem
	if alreadyDecided(err) && errors.As(err, &refused) {
		outcome, err = refused.ApprovalStatus, nil
	}
	if err != nil {
		if errors.As(err, &refused) && refused.Status < http.StatusInternalServerError && refused.Status != http.StatusTooManyRequests {
			s.reportViolationf("told wrong", "decide %s: %v", shown.ID, refused)
			return nil
		}
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.decisions++
	if s.decided[shown.ID] == nil {
		s.decided[shown.ID] = map[string]bool{}
	}
	s.decided[shown.ID][outcome] = true
	return nil
}

// skillSettings are the settings of the skill "changing" that the operator edits.
type skillSettings struct {
	Revision int64  `json:"revision"`
	URL      string `json:"url"`
}

// changeSkill regularly moves a skill to another URL, so that earlier approvals are not sent.
func (s *torture) changeSkill(ctx context.Context) {
	for number := 1; pause.For(ctx, changeInterval) == nil; number++ {
		next := skillSettings{s.readSkill().Revision, fmt.Sprintf("%s/changing/%d", s.server.URL, number)}
		_ = s.requestSkill(http.MethodPatch, next, nil) // the next read shows whether it was changed
	}
}

// readSkill records the skill's URL at its current revision. A change names the revision that was read before, so none
// is missed.
func (s *torture) readSkill() skillSettings {
	var now skillSettings
	err := eventually.Poll(s.t.Context(), patience, func() error { return s.requestSkill(http.MethodGet, nil, &now) })
	if err != nil {
		s.reportViolationf("not recovered", "the operator cannot read the skill: %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.urls[now.Revision] = strings.TrimPrefix(now.URL, s.server.URL)
	return now
}

func (s *torture) requestSkill(method string, body, out any) error {
	ctx, cancel := context.WithTimeout(s.t.Context(), attemptTime)
	defer cancel()
	return operatorAPI(s.anyServer()).Do(ctx, method, "skills/changing", body, out)
}

// awaitRecovery waits until both processes are ready, and complete an auto-approved and a gated call.
func (s *torture) awaitRecovery() {
	began := time.Now()
	var both sync.WaitGroup
	for i, server := range s.servers {
		both.Go(func() {
			if err := eventually.Poll(s.t.Context(), patience, server.Ready); err != nil {
				s.reportViolationf("not recovered", "the %s is not ready: %v", processNames[i], err)
			}
			full := func(d time.Duration) time.Duration { return d }
			for _, tool := range []string{"direct__record", "steady__record"} {
				n := s.numbers.Add(1)
				if err := s.callUntilTold(func() *holdpoint.Process { return server }, tool, n, "{}", full); err != nil {
					s.reportViolationf("not recovered", "the %s does not carry a call of %s: %v", processNames[i], tool, err)
				}
			}
			s.recovered[i] = time.Since(began)
			if s.strict && s.recovered[i] > recoveryLimit {
				s.reportViolationf("not recovered", "the %s took %s", processNames[i], s.recovered[i])
			}
		})
	}
	both.Wait()
	for i, server := range s.servers {
		if server.Ended() {
			s.reportViolationf("not recovered", "the %s has ended", processNames[i])
		}
	}
}

// reportViolationf records a violation.
func (s *torture) reportViolationf(kind, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.t.Errorf("%s: %s", kind, text)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.violations[kind] = append(s.violations[kind], text)
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
