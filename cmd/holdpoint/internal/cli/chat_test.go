package cli_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/cli"
)

const (
	talkID = "01980000-0000-7000-8000-00000000000c"
	saidID = "01980000-0000-7000-8000-00000000000d"
)

// stream is one connection of a client that follows.
type stream struct {
	w     http.ResponseWriter
	since string // its Last-Event-ID
	path  string
	gone  <-chan struct{}
}

// putEvents sends events as they are written: "7 assistant {…}", with 0 for no number.
func (s *stream) putEvents(events ...string) {
	for _, text := range events {
		id, rest, _ := strings.Cut(text, " ")
		name, data, _ := strings.Cut(rest, " ")
		if id != "0" {
			fmt.Fprintf(s.w, "id: %s\n", id)
		}
		fmt.Fprintf(s.w, "event: %s\ndata: %s\n\n", name, data)
	}
	_ = http.NewResponseController(s.w).Flush()
}

// talkServer is a server with conversations, whose streams a test writes.
type talkServer struct {
	*httptest.Server
	t      *testing.T
	follow func(s *stream, n int) // the nth connection
	calls  string                 // that wait, as a list

	mu    sync.Mutex
	n     int
	asked []string // method, path and body
	posts chan string
}

func newTalkServer(t *testing.T, follow func(s *stream, n int)) *talkServer {
	t.Helper()
	s := &talkServer{t: t, follow: follow, calls: `{"items":[]}`, posts: make(chan string, 100)}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func talk(id, agent, loop string) string {
	return `{"id":"` + id + `","agent":"` + agent + `","problems":[],"loop":` + loop + `}`
}

const idleLoop = `{"status":"idle","code":null,"stopping":false,"last_seq":0,"open_calls":0,"turns":0,"input_tokens":0,"output_tokens":0,"cost":0,"forked_from":null,"pending":[]}`

// newState is a state event.
func newState(status string) string {
	return `0 state ` + strings.Replace(idleLoop, `"idle"`, `"`+status+`"`, 1)
}

func (s *talkServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	path := strings.TrimPrefix(r.URL.Path, "/api/v1/")
	s.mu.Lock()
	s.asked = append(s.asked, r.Method+" "+path+" "+string(body))
	if strings.HasSuffix(path, "/events") {
		s.n++
	}
	n, calls := s.n, s.calls
	s.mu.Unlock()
	if r.Method == http.MethodPost {
		s.posts <- strings.TrimPrefix(path, "conversations") + " " + string(body)
	}
	switch _, action, _ := strings.Cut(strings.TrimPrefix(path, "conversations/"), "/"); {
	case path == "calls":
		fmt.Fprint(w, calls)
	case path == "conversations", path == "conversations/latest", action == "" && strings.HasSuffix(path, talkID), action == "cancel", action == "close":
		fmt.Fprint(w, talk(talkID, "billing", idleLoop))
	case action == "messages":
		if r.Header.Get("Idempotency-Key") == "" {
			s.t.Error("a message without a key")
		}
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprint(w, `{"message":{"id":"`+saidID+`","text":"","files":[],"call_id":null},"pending":false}`)
	case action == "fork":
		fmt.Fprint(w, talk("forked", "billing", strings.Replace(idleLoop, `"last_seq":0`, `"last_seq":3`, 1)))
	case action == "events":
		w.Header().Set("Content-Type", "text/event-stream")
		s.follow(&stream{w: w, since: r.Header.Get("Last-Event-ID"), path: path, gone: r.Context().Done()}, n)
	default:
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"status":404,"code":"not_found","detail":"nothing here"}`)
	}
}

func (s *talkServer) run(args ...string) ran {
	s.t.Helper()
	return s.runWith("", args...)
}

func (s *talkServer) runWith(stdin string, args ...string) ran {
	s.t.Helper()
	return run(s.t, map[string]string{"HOLDPOINT_URL": s.URL, "HOLDPOINT_TOKEN": "t"}, stdin, args...)
}

const (
	userEntry  = `{"seq":1,"kind":"user","user":{"id":"` + saidID + `","text":"hello"}}`
	callUnder  = "01980000-0000-7000-8000-00000000000e"
	writeReply = `{"seq":2,"kind":"assistant","assistant":{"text":"I will write.","calls":[{"call_id":"` + callUnder + `","name":"files__write","arguments":"{}","refused":null},{"call_id":null,"name":"no\npe","arguments":"","refused":"no \u001b tool"}]}}`
)

func callEntry(seq int, status string) string {
	return fmt.Sprintf(`%d call {"seq":%d,"kind":"call","call":{"id":%q,"tool":"files__write","status":%q,"code":null}}`, seq, seq, callUnder, status)
}

func answerEntry(seq int, text string) string {
	quoted, _ := json.Marshal(text)
	return fmt.Sprintf(`%d assistant {"seq":%d,"kind":"assistant","assistant":{"text":%s,"calls":[]}}`, seq, seq, quoted)
}

func newDelta(step, offset int, text string) string {
	quoted, _ := json.Marshal(text)
	return fmt.Sprintf(`0 delta {"step":%d,"offset":%d,"text":%s}`, step, offset, quoted)
}

// TestChat: a question, a call that waits for approval, an answer.
func TestChat(t *testing.T) {
	t.Parallel()
	s := newTalkServer(t, func(s *stream, _ int) {
		s.putEvents("1 user "+userEntry, newState("working"), newDelta(1, 0, "I will "), newDelta(1, 7, "write."), "2 assistant "+writeReply)
		s.putEvents(callEntry(3, "parked"), newState("waiting"), callEntry(4, "approved"), callEntry(5, "succeeded"), `6 tools {"seq":6,"kind":"tools","tools":{"results":[]}}`, newState("working"))
		s.putEvents(newDelta(2, 0, "Do\u001b"), newDelta(2, 3, "ne,\nall"), answerEntry(7, "Do\u001bne,\n\nall of it."), newState("idle"))
		<-s.gone
	})
	s.calls = `{"items":[{"id":"` + callUnder + `","status":"parked","name":"files__write","deadline":"2026-01-02T03:09:05Z","message":null}]}`
	got := s.run("chat", "billing", "hello").wantCode(t, 0)
	if want := "I will write.\nDo<U+001B>ne,\nall of it.\n"; got.stdout != want {
		t.Errorf("stdout %q, want %q", got.stdout, want)
	}
	want := "calling: files__write, call " + callUnder + "\nnot called: no<U+000A>pe: no <U+001B> tool\n" +
		"waiting for approval: files__write, call " + callUnder + ", deadline 2026-01-02T03:09:05Z\n" +
		"approved: files__write, call " + callUnder + "\nsucceeded: files__write, call " + callUnder + "\n"
	if got.stderr != want {
		t.Errorf("stderr\n%s\nwant\n%s", got.stderr, want)
	}
	if post := <-s.posts; post != ` {"agent":"billing"}` {
		t.Errorf("begun with %s", post)
	}
	if post := <-s.posts; post != "/"+talkID+`/messages {"message":"hello"}` {
		t.Errorf("said %s", post)
	}
}

// Text is shown once, even if the connection breaks.
func TestChatReconnects(t *testing.T) {
	t.Parallel()
	var since []string
	s := newTalkServer(t, func(s *stream, n int) {
		since = append(since, s.since)
		switch n {
		case 1:
			s.putEvents("1 user "+userEntry, newState("working"), newDelta(1, 0, "Hel"))
		case 2: // the same reply, from its beginning
			s.putEvents(newState("working"), newDelta(1, 0, "Hello wo"), newDelta(1, 8, "rl"))
		case 3: // another attempt at it
			s.putEvents(newState("working"), newDelta(2, 0, "Bye"))
		case 4:
			s.putEvents(newState("working"), newDelta(2, 0, "Bye all"), answerEntry(2, "Bye all."))
		default:
			s.putEvents(newState("idle"))
			<-s.gone
		}
	})
	got := s.run("chat", "billing", "hello").wantCode(t, 0)
	if want := "Hello worl\nBye all.\n"; got.stdout != want {
		t.Errorf("stdout %q, want %q", got.stdout, want)
	}
	if got.stderr != "This reply broke off; its text above is void.\n" {
		t.Errorf("stderr %q", got.stderr)
	}
	if text := strings.Join(since, " "); text != "0 1 1 1 2" {
		t.Errorf("Last-Event-IDs %s", text)
	}
}

// TestChatReplyAfterAMessage: a reply whose line was broken by a message is shown anew, so that no word is in two pieces.
func TestChatReplyAfterAMessage(t *testing.T) {
	t.Parallel()
	for name, rest := range map[string][]string{
		"the whole reply": {answerEntry(3, "The server says so.")},
		"another part":    {newDelta(1, 14, "s so."), answerEntry(3, "The server says so.")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTalkServer(t, func(s *stream, _ int) {
				s.putEvents("1 user "+userEntry, newState("working"), newDelta(1, 0, "The server say"), callEntry(2, "succeeded"))
				s.putEvents(rest...)
				s.putEvents(newState("idle"))
				<-s.gone
			})
			got := s.run("chat", "billing", "hello").wantCode(t, 0)
			if want := "The server say\nThe server says so.\n"; got.stdout != want {
				t.Errorf("stdout %q, want %q", got.stdout, want)
			}
		})
	}
}

func TestChatWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	notice := func(seq int, code string) string {
		return fmt.Sprintf(`%d notice {"seq":%d,"kind":"notice","notice":{"code":%q,"text":"In plain words \u202e.","by":null}}`, seq, seq, code)
	}
	ended := strings.Replace(newState("ended"), `"code":null`, `"code":"turn_limit"`, 1)
	for name, test := range map[string]struct {
		events []string
		stderr string
	}{
		"the model failed":      {[]string{notice(2, "model_failed"), newState("idle")}, "In plain words <U+202E>.\nholdpoint: the answer is incomplete (model_failed)"},
		"a limit was reached":   {[]string{notice(2, "turn_limit"), ended}, "the answer is incomplete (turn_limit)"},
		"it was cut":            {[]string{answerEntry(2, "Half"), notice(3, "cut"), newState("idle")}, "the answer is incomplete (cut)"},
		"it had ended":          {[]string{ended}, "the conversation has ended (turn_limit)"},
		"only calls were heard": {[]string{"2 assistant " + writeReply, newState("idle")}, "there is no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTalkServer(t, func(s *stream, _ int) {
				s.putEvents("1 user " + userEntry)
				s.putEvents(test.events...)
				<-s.gone
			})
			wantContains(t, "stderr", s.run("chat", "billing", "hello").wantCode(t, 1).stderr, test.stderr)
		})
	}
}

func TestChatAsJSON(t *testing.T) {
	t.Parallel()
	s := newTalkServer(t, func(s *stream, n int) {
		if n == 1 {
			s.putEvents("1 user "+userEntry, newState("working"), newDelta(1, 0, "Hel"))
			return
		}
		s.putEvents(newState("working"), newDelta(1, 0, "Hello"), answerEntry(2, "Hello"), newState("idle"))
		<-s.gone
	})
	got := s.run("chat", "billing", "hello", "--json").wantCode(t, 0)
	var events []string
	for line := range strings.Lines(got.stdout) {
		var e struct {
			Event string         `json:"event"`
			ID    int64          `json:"id"`
			Data  map[string]any `json:"data"`
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Data == nil {
			t.Fatalf("%v: %s", err, line)
		}
		events = append(events, fmt.Sprint(e.Event, " ", e.ID, " ", e.Data["text"]))
	}
	want := "conversation 0 <nil>|user 1 <nil>|state 0 <nil>|delta 0 Hel|delta 0 lo|assistant 2 <nil>|state 0 <nil>"
	if text := strings.Join(events, "|"); text != want {
		t.Errorf("events %s, want %s", text, want)
	}
}

func TestChatFlags(t *testing.T) {
	t.Parallel()
	s := newTalkServer(t, func(s *stream, _ int) {
		s.putEvents("1 user "+userEntry, answerEntry(2, "Hi\n"), newState("idle"))
		<-s.gone
	})
	if got := s.run("chat", "billing", "hello", "--no-wait").wantCode(t, 0); got.stdout != talkID+"\n" {
		t.Errorf("stdout %q", got.stdout)
	}
	for _, args := range [][]string{{"--continue"}, {"--conversation", talkID}} {
		if got := s.runWith("hello\n", append([]string{"chat", "billing"}, args...)...).wantCode(t, 0); got.stdout != "Hi\n" {
			t.Errorf("%s: stdout %q", args, got.stdout)
		}
	}
	if asked := strings.Join(s.asked, "\n"); strings.Count(asked, `{"message":"hello"}`) != 3 || strings.Count(asked, "POST conversations {") != 1 {
		t.Errorf("asked %s", asked)
	}
	wantContains(t, "stderr", s.run("chat", "other", "hello", "--conversation", talkID).wantCode(t, 1).stderr, "belongs to agent billing")
	wantContains(t, "stderr", s.run("chat", "billing", "hello", "--conversation", "none").wantCode(t, 1).stderr, "nothing here")
	wantContains(t, "stderr", s.runWith(" \n", "chat", "billing").wantCode(t, 1).stderr, "the message is empty")
	s.run("chat", "billing", "hello", "--conversation", talkID, "--continue").wantCode(t, 1)
	s.run("chat").wantCode(t, 1)
}

// typing is a person at a terminal.
type typing struct {
	io.Writer
	stdout, stderr *told
	interrupts     chan os.Signal
	code           chan int
}

func (s *talkServer) sit(args ...string) *typing {
	s.t.Helper()
	in, out := io.Pipe()
	p := &typing{Writer: out, stdout: newTold(), stderr: newTold(), interrupts: make(chan os.Signal), code: make(chan int, 1)}
	e := &cli.Env{
		Getenv: func(string) string { return "" }, Stdin: in, Stdout: p.stdout, Stderr: p.stderr, Terminal: true, Interrupts: p.interrupts,
	}
	go func() {
		p.code <- cli.Run(s.t.Context(), e, append([]string{"--url", s.URL, "--token", "t", "chat", "billing"}, args...))
	}()
	s.t.Cleanup(func() { _ = out.Close() })
	return p
}

func (p *typing) types(t *testing.T, text string) {
	t.Helper()
	if _, err := io.WriteString(p, text); err != nil {
		t.Fatal(err)
	}
}

// posted is the next thing that was sent, of a conversation.
func (s *talkServer) posted(want string) {
	s.t.Helper()
	if got := <-s.posts; got != want {
		s.t.Errorf("sent %s, want %s", got, want)
	}
}

func TestChatAtATerminal(t *testing.T) {
	t.Parallel()
	next, forked := make(chan []string), make(chan []string)
	s := newTalkServer(t, func(s *stream, _ int) {
		from := next
		if strings.Contains(s.path, "forked") {
			from = forked
		}
		for {
			select {
			case events := <-from:
				s.putEvents(events...)
			case <-s.gone:
				return
			}
		}
	})
	p := s.sit()
	s.posted(` {"agent":"billing"}`)
	next <- []string{newState("idle")}
	p.stderr.awaitText("[0] > ")
	p.types(t, "hello \\\nworld\n")
	p.stderr.awaitText("... ")
	s.posted("/" + talkID + `/messages {"message":"hello \nworld"}`)
	next <- []string{"1 user " + userEntry, newState("working"), newDelta(1, 0, "Thinking")}
	p.stdout.awaitText("Thinking")
	p.interrupts <- os.Interrupt
	p.stderr.awaitText("Stopping; Ctrl-C again leaves.")
	s.posted("/" + talkID + "/cancel ")
	next <- []string{`2 notice {"seq":2,"kind":"notice","notice":{"code":"stopped","text":"It was stopped.","by":null}}`, newState("idle")}
	p.stderr.awaitText("[2] > ")

	p.types(t, "/nonsense\n/help\n/fork\n")
	p.stderr.awaitText("Unknown command /nonsense")
	p.stderr.awaitText("Name an entry: /fork N")
	p.types(t, "/fork 1 Hello again\n")
	s.posted("/" + talkID + `/fork {"message":"Hello again","seq":1}`)
	p.stderr.awaitText("Continuing in conversation forked.")
	forked <- []string{newState("working"), answerEntry(4, "Here."), newState("idle")}
	p.stderr.awaitText("[4] > ")
	p.types(t, "/stop\n")
	s.posted("/forked/cancel ")
	p.types(t, "/close\n")
	s.posted("/forked/close ")
	forked <- []string{strings.Replace(newState("ended"), `"code":null`, `"code":"closed"`, 1)}
	if code := <-p.code; code != 0 {
		t.Errorf("exit code %d: %s", code, p.stderr.text.String())
	}
	wantContains(t, "stdout", p.stdout.text.String(), "Thinking\n", "Here.\n")
}

func TestChatIsLeft(t *testing.T) {
	t.Parallel()
	hold := func(status string) func(s *stream, _ int) {
		return func(s *stream, _ int) {
			s.putEvents("1 user "+userEntry, newState(status))
			<-s.gone
		}
	}
	back := "To come back: holdpoint chat billing --conversation " + talkID

	waits := newTalkServer(t, hold("waiting"))
	p := waits.sit("--conversation", talkID)
	p.stderr.awaitText("[1] > ")
	p.interrupts <- os.Interrupt
	waits.posted("/" + talkID + "/cancel ")
	p.interrupts <- os.Interrupt
	if code := <-p.code; code != 130 {
		t.Errorf("exit code %d", code)
	}
	wantContains(t, "stderr", p.stderr.text.String(), "the conversation continues", back)

	p = waits.sit("hello")
	p.stderr.awaitText("") // it runs
	for range 2 {
		<-waits.posts
	}
	p.interrupts <- os.Interrupt // without input: the work under way continues
	if code := <-p.code; code != 130 {
		t.Errorf("exit code %d", code)
	}
	if len(waits.posts) != 0 {
		t.Errorf("sent %s", <-waits.posts)
	}

	idle := newTalkServer(t, hold("idle"))
	p = idle.sit("--conversation", talkID)
	p.stderr.awaitText("[1] > ")
	if err := p.Writer.(io.Closer).Close(); err != nil {
		t.Fatal(err)
	}
	if code := <-p.code; code != 0 {
		t.Errorf("exit code %d", code)
	}
	wantContains(t, "stderr", p.stderr.text.String(), back)

	unused := newTalkServer(t, func(s *stream, _ int) { s.putEvents(newState("idle")); <-s.gone })
	p = unused.sit()
	<-unused.posts
	p.stderr.awaitText("[0] > ")
	if err := p.Writer.(io.Closer).Close(); err != nil {
		t.Fatal(err)
	}
	if code := <-p.code; code != 0 {
		t.Errorf("exit code %d", code)
	}
	unused.posted("/" + talkID + "/close ") // nothing was said in it
}
