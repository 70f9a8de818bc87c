package cli_test

import (
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/internal/certtest"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
)

// TestDoctorChecksTheEdge: the certificate, the public URL, the proxies and the first person, each with the next step.
func TestDoctorChecksTheEdge(t *testing.T) {
	t.Parallel()
	db, now := postgrestest.New(t), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) // of the commands
	good := certtest.Write(t, t.TempDir(), now.Add(60*24*time.Hour), "gate.example.com")
	soon, over := certtest.Write(t, t.TempDir(), now.Add(48*time.Hour)), certtest.Write(t, t.TempDir(), now.Add(-time.Minute))
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"plain":           {nil, []string{"ok    public URL", "http://127.0.0.1:8080", "warn  people", `"holdpoint invite --first"`}},
		"certificate":     {[]string{"--public-url", "https://gate.example.com", "--tls-cert", good.Cert, "--tls-key", good.Key}, []string{"ok    TLS certificate", "ok    public URL"}},
		"ends soon":       {[]string{"--public-url", "https://localhost", "--tls-cert", soon.Cert, "--tls-key", soon.Key}, []string{"warn  TLS certificate", "renew it"}},
		"ended":           {[]string{"--tls-cert", over.Cert, "--tls-key", over.Key}, []string{"fail  TLS certificate", "replace the files"}},
		"other host":      {[]string{"--public-url", "https://other.example.com", "--tls-cert", good.Cert, "--tls-key", good.Key}, []string{"fail  TLS certificate", "is not for other.example.com"}},
		"key of another":  {[]string{"--tls-cert", good.Cert, "--tls-key", soon.Key}, []string{"fail  TLS certificate", "serve does not start"}},
		"half":            {[]string{"--tls-cert", good.Cert}, []string{"fail  listener", "must be given together"}},
		"no proxy":        {[]string{"--public-url", "https://gate.example.com"}, []string{"warn  public URL", "--trusted-proxies"}},
		"a proxy":         {[]string{"--public-url", "https://gate.example.com", "--trusted-proxies", "10.0.0.7"}, []string{"ok    public URL"}},
		"without TLS":     {[]string{"--public-url", "http://gate.example.com"}, []string{"warn  public URL", "in the clear"}},
		"no URL":          {[]string{"--addr", ":8080"}, []string{"warn  public URL", "set --public-url"}},
		"no metric token": {[]string{"--metrics-token-file", "/nowhere/token"}, []string{"fail  metrics"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := runWith(t, map[string]string{"DATABASE_URL": db.Pool().Config().ConnString()}, "", nil,
				append([]string{"doctor", "--data-dir", t.TempDir()}, c.args...)...)
			wantContains(t, "doctor", got.stdout, c.want...)
		})
	}
}

// TestMistakesSayWhatIsMeant: wrong names, wrong values and a missing server.
func TestMistakesSayWhatIsMeant(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"command":        {[]string{"approvls"}, "did you mean approvals?"},
		"subcommand":     {[]string{"approvals", "aprove"}, "did you mean approve?"},
		"verb":           {[]string{"approve", "7"}, "did you mean approvals approve or changes approve or plans approve?"},
		"mistyped verb":  {[]string{"aprove"}, "did you mean approvals approve or changes approve or plans approve?"},
		"plural":         {[]string{"skills", "list"}, "did you mean skill?"},
		"singular":       {[]string{"policy", "list"}, "did you mean policies?"},
		"group's verb":   {[]string{"token", "redeem"}, "did you mean invitation redeem?"},
		"verb of many":   {[]string{"list"}, "unknown command \"list\" for \"holdpoint\"\n"},
		"nothing near":   {[]string{"xyzzy"}, `unknown command "xyzzy" for "holdpoint"`},
		"file":           {[]string{"apply", "holdpoint.yaml"}, "name files with -f holdpoint.yaml"},
		"number":         {[]string{"approvals", "list", "--limit", "many"}, "must be a whole number"},
		"without server": {[]string{"approvals", "list", "--url", "http://127.0.0.1:1"}, "holdpoint serve"},
	} {
		got := runWith(t, nil, "", nil, c.args...).wantCode(t, 1)
		wantContains(t, name, got.stderr, c.want)
	}
}
