package mcptool_test

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/worldtest"
	"github.com/holdpoint/holdpoint/runtime/mcptool"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

func TestListAndCallOverStdio(t *testing.T) {
	t.Parallel()
	s := newSource(t, mcptool.Config{DataDir: t.TempDir()})
	server := childSkill(t, "echo")
	listing, err := s.List(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	if len(listing.Tools) != 1 {
		t.Errorf("tools %v", listing.Tools)
	}
	t.Log(listing.ProtocolVersion)
	if got := textOf(t, callTool(t, s, server, "echo", `{"a":1}`)); got != `{"a":1}` {
		t.Errorf("echo %s", got)
	}
}

// failTool calls a tool of a child and expects a failure.
func failTool(t *testing.T, s *mcptool.Source, skill tool.Server, name string, patience time.Duration) *tool.Failure {
	t.Helper()
	result, err := s.Call(withTimeout(t, patience), skill, tool.CallRequest{CallID: uuid.New(), Tool: name, Arguments: json.RawMessage(`{}`)})
	if err == nil {
		t.Fatalf("call %s succeeded: %.200s", name, result.Raw)
	}
	return asFailure(t, err)
}

func TestSilenceAboutDiscoverMeansInitialize(t *testing.T) {
	t.Parallel()
	s := newSource(t, mcptool.Config{DataDir: t.TempDir(), Limits: mcptool.Limits{DiscoverProbe: 200 * time.Millisecond}})
	skill := childSkill(t, "silent")
	listing, err := s.List(t.Context(), skill)
	if err != nil || listing.ProtocolVersion != "2025-11-25" {
		t.Fatal(listing, err)
	}
	callTool(t, s, skill, "mirror", `{}`)
}

func TestChildThatCannotBegin(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		kind  tool.FailureKind
		start time.Duration
		says  []string
	}{
		"dies":   {tool.TransportFailure, time.Minute, []string{"exit status 3", `cannot find \u202e the configuration, key [hidden]`}},
		"mute":   {tool.TransportFailure, 5 * time.Second, []string{"time"}},
		"prints": {tool.ProtocolFailure, 20 * time.Second, []string{"time", "Welcome to the program!"}},
	}
	for mode, test := range tests {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := newSource(t, mcptool.Config{DataDir: t.TempDir(), Limits: mcptool.Limits{Start: test.start, DiscoverProbe: 100 * time.Millisecond}})
			skill := childSkill(t, mode)
			skill.Env["API_KEY"] = "sk-1234567890"
			f := failTool(t, s, skill, "mirror", 2*time.Minute)
			if f.Kind != test.kind || f.Effect != tool.EffectNone {
				t.Errorf("got %s, effect %s: %s", f.Kind, f.Effect, f.Message)
			}
			for _, says := range test.says {
				if !strings.Contains(f.Message, says) {
					t.Errorf("message %q lacks %q", f.Message, says)
				}
			}
		})
	}
}

// TestChildThatKeepsDyingRests: a child restarts at once after its first exit, then with a delay.
func TestChildThatKeepsDyingRests(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	now := time.Now()
	clock := func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}
	s := newSource(t, mcptool.Config{DataDir: t.TempDir(), Now: clock})
	skill := childSkill(t, "dies")
	for i, want := range []bool{false, false, true, true} {
		f := failTool(t, s, skill, "mirror", time.Minute)
		if got := strings.Contains(f.Message, "started again in"); got != want || f.Effect != tool.EffectNone {
			t.Errorf("call %d: %s", i, f.Message)
		}
	}
	mu.Lock()
	now = now.Add(time.Minute)
	mu.Unlock()
	if f := failTool(t, s, skill, "mirror", time.Minute); strings.Contains(f.Message, "started again in") {
		t.Errorf("after a minute: %s", f.Message)
	}
}

func TestHostileChildAtACall(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		kind     tool.FailureKind
		patience time.Duration
		says     string
	}{
		"crash":   {tool.TransportFailure, 60 * time.Second, "exit status 2); it said: panic: out of cheese"},
		"hang":    {tool.TransportFailure, 10 * time.Second, "time"},
		"babbles": {tool.ProtocolFailure, 10 * time.Second, "<html>not what was asked for"},
		"huge":    {tool.ProtocolFailure, 60 * time.Second, "larger than"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSource(t, mcptool.Config{DataDir: t.TempDir(), Limits: mcptool.Limits{ResultBytes: 1 << 20, ListBytes: 1 << 20}})
			skill := childSkill(t, "raw")
			first := aboutChild(t, s, skill)
			f := failTool(t, s, skill, name, test.patience)
			if f.Kind != test.kind || f.Effect != tool.EffectPossible || !strings.Contains(f.Message, test.says) {
				t.Errorf("got %s, effect %s: %s", f.Kind, f.Effect, f.Message)
			}
			second := aboutChild(t, s, skill) // the next call succeeds
			if same := first.PID == second.PID; same == (name == "crash") {
				t.Errorf("same child: %t", same)
			}
		})
	}
}

func TestNoiseHarmsNoCall(t *testing.T) {
	t.Parallel()
	s := newSource(t, mcptool.Config{DataDir: t.TempDir()})
	skill := childSkill(t, "raw")
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			for _, name := range []string{"noisy", "mirror"} {
				if _, err := s.Call(t.Context(), skill, tool.CallRequest{Tool: name}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

func TestChildMayAsk(t *testing.T) {
	t.Parallel()
	s := newSource(t, mcptool.Config{DataDir: t.TempDir()})
	got := textOf(t, callTool(t, s, childSkill(t, "raw"), "ping", `{}`))
	want := `{"jsonrpc":"2.0","id":"p","result":{}}` + "\n" +
		`{"jsonrpc":"2.0","id":2,"error":{"code":-32600,"message":"several clients share this session: roots are told only on the stream of a call"}}` + "\n"
	if got != want {
		t.Errorf("got %s", got)
	}
}

// TestChildThatReadsNothing: a call that the child did not read has no effect.
func TestChildThatReadsNothing(t *testing.T) {
	t.Parallel()
	s := newSource(t, mcptool.Config{DataDir: t.TempDir(), Limits: mcptool.Limits{Stop: 100 * time.Millisecond}})
	skill := childSkill(t, "raw")
	callTool(t, s, skill, "deaf", `{}`)
	big := json.RawMessage(`{"s":"` + strings.Repeat("x", 1<<20) + `"}`)
	ctx := withTimeout(t, 10*time.Second)
	begun := make(chan *tool.Failure, 1)
	go func() {
		_, err := s.Call(ctx, skill, tool.CallRequest{Tool: "mirror", Arguments: big})
		begun <- asFailure(t, err)
	}()
	f := failTool(t, s, skill, "mirror", 5*time.Second)
	first := <-begun
	effects := map[tool.Effect]int{f.Effect: 1}
	effects[first.Effect]++
	// One of the two fills the pipe. The other waits or still fits.
	if effects[tool.EffectPossible] == 0 {
		t.Errorf("effects %s and %s, want one that is possible", f, first)
	}
}

// TestChildThatClosedItsInput: nothing was written, so a new child gets the call.
func TestChildThatClosedItsInput(t *testing.T) {
	t.Parallel()
	s := newSource(t, mcptool.Config{DataDir: t.TempDir(), Limits: mcptool.Limits{Stop: 100 * time.Millisecond}})
	skill := childSkill(t, "raw")
	callTool(t, s, skill, "shut", `{}`)
	if got := textOf(t, callTool(t, s, skill, "mirror", `{"again":1}`)); got != `{"again":1}` {
		t.Errorf("got %s", got)
	}
}

type aboutText struct {
	Env        []string
	Dir        string
	PID, Group int
}

func aboutChild(t *testing.T, s *mcptool.Source, skill tool.Server) aboutText {
	t.Helper()
	var a aboutText
	if err := json.Unmarshal(callTool(t, s, skill, "about", `{}`).Raw, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

func TestChildSeesOnlyItsOwnEnvironment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := newSource(t, mcptool.Config{DataDir: dir, Path: "/usr/bin:/bin", Lang: "de_CH.UTF-8"})
	skill := childSkill(t, "raw")
	skill.Env["EXTRA"] = "a b"
	a := aboutChild(t, s, skill)
	home := filepath.Join(dir, "homes", skill.SkillID.String())
	want := map[string]bool{
		"PATH=/usr/bin:/bin": true, "LANG=de_CH.UTF-8": true, "HOME=" + home: true, "TMPDIR=" + home + ".tmp": true, "PWD=" + home: true,
		"MCPTOOL_TEST_SERVER=raw": true, "GORACE=atexit_sleep_ms=0": true, "EXTRA=a b": true,
	}
	for _, entry := range a.Env {
		if !want[entry] {
			t.Errorf("the child sees %q", entry)
		}
		delete(want, entry)
	}
	delete(want, "PWD="+home)
	if len(want) > 0 {
		t.Errorf("the child lacks %v", want)
	}
	if info, err := os.Stat(home); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("home: %v %v", info, err)
	}
	if a.Dir != home {
		t.Errorf("works in %s", a.Dir)
	}
	if a.Group != a.PID || a.Group == syscall.Getpgrp() {
		t.Errorf("process %d in group %d", a.PID, a.Group)
	}
}

func TestStderrGoesToTheLog(t *testing.T) {
	t.Parallel()
	log := &worldtest.Log{}
	s := newSource(t, mcptool.Config{DataDir: t.TempDir(), Logger: log.Logger(slog.LevelInfo)})
	failTool(t, s, childSkill(t, "raw"), "crash", 20*time.Second)
	eventually.Holds(t, "the line is logged", func() bool {
		return strings.Contains(log.String(), `level=INFO msg="skill server says" skill=raw stderr="panic: out of cheese"`)
	})
}

// isAlive reports whether a process exists, even as a zombie.
func isAlive(pid int) bool { return syscall.Kill(pid, 0) == nil }

// TestNoProcessIsLeftBehind: no child, grandchild or zombie remains.
func TestNoProcessIsLeftBehind(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"raw", "stubborn"} {
		for _, end := range []string{"Forget", "Close", "crash"} {
			t.Run(mode+"/"+end, func(t *testing.T) {
				t.Parallel()
				s := newSource(t, mcptool.Config{DataDir: t.TempDir(), Limits: mcptool.Limits{Stop: 50 * time.Millisecond}})
				skill := childSkill(t, mode)
				child := aboutChild(t, s, skill).PID
				var spawned struct{ PID int }
				if err := json.Unmarshal(callTool(t, s, skill, "spawn", `{}`).Raw, &spawned); err != nil {
					t.Fatal(err)
				}
				switch end {
				case "Forget":
					s.Forget(skill.SkillID)
				case "Close":
					if err := s.Close(withTimeout(t, 20*time.Second)); err != nil {
						t.Error(err)
					}
				case "crash":
					failTool(t, s, skill, "crash", 20*time.Second)
				}
				eventually.Holds(t, "the child is gone", func() bool { return !isAlive(child) })
				// Grandchildren are reaped by init, if it does that.
				eventually.Holds(t, "its child is gone", func() bool { return !isAlive(spawned.PID) || isZombie(spawned.PID) })
			})
		}
	}
}

// isZombie reports whether a process waits to be reaped.
func isZombie(pid int) bool {
	text, err := os.ReadFile(filepath.Join("/proc", itoa(pid), "stat"))
	return err == nil && strings.Contains(string(text), ") Z ")
}

func TestStdioMayBeOff(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]mcptool.Config{
		"switched off":   {Stdio: tool.StdioPolicy{Allow: [][]string{{}}}, DataDir: t.TempDir()},
		"data directory": {},
	} {
		s := newSource(t, config)
		f := failTool(t, s, childSkill(t, "raw"), "mirror", time.Minute)
		if f.Kind != tool.TransportFailure || f.Effect != tool.EffectNone || !strings.Contains(f.Message, name) {
			t.Errorf("got %s, effect %s: %s", f.Kind, f.Effect, f.Message)
		}
	}
}
