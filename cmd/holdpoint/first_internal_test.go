package main

import (
	"bytes"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/cli"
)

// TestFirstPersonGetsALink: a server without people and without a bootstrap token shows a sign-in link on a terminal. Elsewhere it logs the command that
// makes one. Both end once someone has signed in.
func TestFirstPersonGetsALink(t *testing.T) {
	t.Parallel()
	s, db, _ := openEdge(t, func(settings *serverSettings) { settings.BootstrapToken = "" })
	log := &bytes.Buffer{}
	s.log = slog.New(slog.NewTextHandler(log, nil))
	welcome := func(terminal bool) string {
		t.Helper()
		out := &bytes.Buffer{}
		check(t, s.welcomeFirst(t.Context(), &cli.Env{Stdout: out, StdoutTerminal: terminal}))
		return out.String()
	}
	if out := welcome(false); out != "" || !strings.Contains(log.String(), "holdpoint invite --first") || strings.Contains(log.String(), "token=") {
		t.Errorf("without a terminal: printed %q, logged %q", out, log)
	}
	log.Reset()
	link := regexp.MustCompile(`http\S+/sign-in\?token=\S+`)
	printed := link.FindString(welcome(true))
	if printed == "" || log.Len() > 0 {
		t.Fatalf("on a terminal: printed %q, logged %q", printed, log)
	}
	invite := func() (int, string, string) {
		var out, problems bytes.Buffer
		env := map[string]string{"DATABASE_URL": db.Pool().Config().ConnString()}
		code := run(t.Context(), []string{"invite", "--first", "--data-dir", t.TempDir(), "--public-url", "https://gate.example.com/"},
			func(name string) string { return env[name] }, strings.NewReader(""), &out, &problems)
		return code, out.String(), problems.String()
	}
	code, out, problems := invite()
	if code != 0 || !strings.HasPrefix(out, "https://gate.example.com/sign-in?token=") {
		t.Errorf("invite --first: %d, %q, %q", code, out, problems)
	}
	if status, _, _ := ask(t, printed); status != http.StatusOK {
		t.Errorf("the link's page: %d", status)
	}
	_, token, _ := strings.Cut(printed, "token=")
	access, err := s.runtime.Identity.UseSignInLink(t.Context(), token)
	if err != nil || len(access.Roles) != 2 {
		t.Fatalf("the link gives %+v, %v", access, err)
	}
	if out := welcome(true) + welcome(false) + log.String(); out != "" {
		t.Errorf("after the first sign-in: %q", out)
	}
	if code, out, problems := invite(); code != 1 || out != "" || !strings.Contains(problems, "invitation create") {
		t.Errorf("invite --first after that: %d, %q, %q", code, out, problems)
	}
}

// TestInviteNeedsFirst: the command is for the first person only, and needs the server's database. It makes none.
func TestInviteNeedsFirst(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for want, args := range map[string][]string{"--first": nil, dir + " has no database": {"--first"}} {
		var out, problems bytes.Buffer
		args = append([]string{"invite", "--data-dir", dir}, args...)
		code := run(t.Context(), args, func(string) string { return "" }, strings.NewReader(""), &out, &problems)
		if code != 1 || !strings.Contains(problems.String(), want) {
			t.Errorf("%v: exit code %d, %q", args, code, problems.String())
		}
	}
	if made, err := os.ReadDir(dir); err != nil || len(made) > 0 {
		t.Errorf("the data directory has %v, %v", made, err)
	}
}

// TestServerWithTokenWelcomesNobody: the holder of the bootstrap token can sign in.
func TestServerWithTokenWelcomesNobody(t *testing.T) {
	t.Parallel()
	s, _, _ := openEdge(t, nil)
	out := &bytes.Buffer{}
	check(t, s.welcomeFirst(t.Context(), &cli.Env{Stdout: out, StdoutTerminal: true}))
	if out.Len() > 0 {
		t.Errorf("printed %q", out)
	}
}
