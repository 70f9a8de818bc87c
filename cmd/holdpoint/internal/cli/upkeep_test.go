package cli_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	kms "github.com/tink-crypto/tink-go/v2/core/registry"
	"github.com/tink-crypto/tink-go/v2/testing/fakekms"
	"go.uber.org/goleak"

	"github.com/holdpoint/holdpoint/internal/leaktest"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
	"github.com/holdpoint/holdpoint/internal/secret"
)

func TestMain(m *testing.M) {
	client, err := fakekms.NewClient("fake-kms://")
	if err != nil {
		panic(err)
	}
	kms.RegisterKMSClient(client)
	ignored := []goleak.Option{ // idle connections of clients, as a process leaves them
		goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"),
		goleak.IgnoreTopFunction("internal/poll.runtime_pollWait"),
	}
	goleak.VerifyTestMain(leaktest.Patient(m, ignored...), ignored...)
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	env := map[string]string{"DATABASE_URL": postgrestest.Empty(t).URL(), "HOLDPOINT_DATA_DIR": t.TempDir(), "HOLDPOINT_ADDR": "127.0.0.1:0"}
	got := run(t, env, "", "doctor").wantCode(t, 0)
	wantContains(t, "doctor", got.stdout, "warn  schema           0 of ", "holdpoint migrate", "of DATABASE_URL", "warn  encryption key")
	got = run(t, env, "", "migrate").wantCode(t, 0)
	wantContains(t, "migrate", got.stdout, "applied river 1 ", "applied holdpoint 1 init\n")
	if got = run(t, env, "", "migrate").wantCode(t, 0); got.stdout != "The database is up to date.\n" {
		t.Errorf("migrate again: %s", got.stdout)
	}
	if got = run(t, env, "", "migrate", "--json").wantCode(t, 0); got.stdout != `{"items":[],"reencrypted":0}`+"\n" {
		t.Errorf("migrate --json: %s", got.stdout)
	}
	wantContains(t, "doctor", run(t, env, "", "doctor", "--json").wantCode(t, 0).stdout, `{"status":"ok","check":"schema"`)
}

// After an upgrade webhooks and callbacks may be older than the rule that their hosts are public or trusted: doctor names them.
func TestDoctorNamesReceiversThatAreNotTrusted(t *testing.T) {
	t.Parallel()
	db, dir := postgrestest.New(t), t.TempDir()
	box, err := secret.Open(secret.Config{File: filepath.Join(dir, "secret.keyset.json")})
	if err != nil {
		t.Fatal(err)
	}
	store := func(insert, purpose, url string, arguments ...any) {
		t.Helper()
		id := uuid.New()
		sealed, err := box.Seal([]byte(url), secret.For(purpose, id))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Pool().Exec(t.Context(), insert, append([]any{id, sealed}, arguments...)...); err != nil {
			t.Fatal(err)
		}
	}
	const webhook = `INSERT INTO webhooks (id, sealed, name, hint) VALUES ($1, $2, $3, $4)`
	store(webhook, "webhook", "http://chat.example/hushhush", "plain", "chat.example")
	store(webhook, "webhook", "https://10.0.0.7/hushhush", "inside", "10.0.0.7")
	store(webhook, "webhook", "https://192.88.99.1/hushhush", "public", "192.88.99.1")
	agent := uuid.New()
	if _, err := db.Pool().Exec(t.Context(), `INSERT INTO agents (id, name, wait_budget_ms) VALUES ($1, 'billing', 1000)`, agent); err != nil {
		t.Fatal(err)
	}
	store(`INSERT INTO callbacks (id, sealed, name, hint, agent_id) VALUES ($1, $2, 'ops', '127.0.0.1:9', $3)`,
		"callback", "http://127.0.0.1:9/hushhush", agent)
	env := map[string]string{"DATABASE_URL": db.URL(), "HOLDPOINT_DATA_DIR": dir, "HOLDPOINT_ADDR": "127.0.0.1:0"}
	got := run(t, env, "", "doctor").wantCode(t, 0).stdout
	wantContains(t, "doctor", got, "ok    receivers        messages may be sent to 1 of 4",
		"warn  receivers        webhook plain: chat.example is named with http", "webhook inside: 10.0.0.7 is not at a public address",
		"callback ops of agent billing: 127.0.0.1:9 is named with http", "--trusted-hosts")
	trusting := run(t, env, "", "doctor", "--trusted-hosts", "chat.example,10.0.0.7,127.0.0.1:9").wantCode(t, 0).stdout
	wantContains(t, "doctor", trusting, "messages may be sent to 4 of 4")
	if strings.Contains(trusting, "warn  receivers") || strings.Contains(got+trusting, "hushhush") {
		t.Errorf("without trust:\n%s\nwith trust:\n%s", got, trusting)
	}
}

func TestDoctorFails(t *testing.T) {
	t.Parallel()
	keyFile := writeFile(t, "key.json", "nonsense")
	f := newFake(t).setAnswer("GET /api/v1/skills", `{"items":[{"name":"good"},{"name":"bad"}]}`).
		setAnswer("POST /api/v1/skills/good/probe", `{"ok":true,"steps":[{"name":"tools/list","detail":"3 tools"}]}`).
		setAnswer("POST /api/v1/skills/bad/probe", `{"ok":false,"steps":[{"name":"connect","error":"refused"}]}`)
	env := f.env()
	env["DATABASE_URL"] = "postgres://u:hush@127.0.0.1:1/x"
	env["HOLDPOINT_DATA_DIR"] = keyFile
	got := run(t, env, "", "doctor", "--encryption-key-file", keyFile).wantCode(t, 1)
	wantContains(t, "doctor", got.stdout, "fail  data directory", "is a file", "fail  PostgreSQL", "check DATABASE_URL",
		"fail  encryption key", "ok    server", "ok    skill good       tools/list: 3 tools", "fail  skill bad        connect: refused")
	if strings.Contains(got.stdout, "hush") {
		t.Errorf("the password is shown:\n%s", got.stdout)
	}
	env["HOLDPOINT_TOKEN"] = ""
	env["HOLDPOINT_DATA_DIR"] = filepath.Join(t.TempDir(), "new")
	env["HOLDPOINT_ENCRYPTION_KEY"] = "nonsense"
	wantContains(t, "doctor", run(t, env, "", "doctor").wantCode(t, 1).stdout, "warn  data directory", "fail  encryption key", "not asked")
}
