package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestStdioEnvironment: a child gets what its skill names, and nothing of Holdpoint's own environment.
func TestStdioEnvironment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.options()
	o.Env = []string{
		"HOLDPOINT_BOOTSTRAP_TOKEN=" + bootstrapToken, "SECRET_OF_THE_SERVER=shown-to-nobody", "HOME=" + t.TempDir(),
	}
	p := program.Serve(t, o)
	w.apply(p, stdioSkill(t, t.TempDir()+"/arrivals"))
	agent := newStubborn(w.agent(p, "worker"), p)
	done := agent.begin(t.Context(), "local__environ", `{}`)
	if err := <-approveUntilDecided(t, "", agent); err != nil {
		t.Fatal(err)
	}
	got := <-done
	var environ []string
	if err := json.Unmarshal([]byte(got.answer.Text()), &environ); err != nil {
		t.Fatalf("the child answered %s, %v: %v", got.answer.Raw, got.err, err)
	}
	values := map[string]string{}
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		values[name] = value
		if !slices.Contains([]string{"PATH", "LANG", "HOME", "TMPDIR", "GIVEN"}, name) {
			t.Errorf("the child has %s", variable)
		}
	}
	for _, secret := range []string{bootstrapToken, "shown-to-nobody", w.databaseURL} {
		if strings.Contains(got.answer.Text(), secret) {
			t.Errorf("the child knows %q", secret)
		}
	}
	if values["GIVEN"] != "a value" {
		t.Errorf("GIVEN is %q", values["GIVEN"])
	}
	if home := values["HOME"]; home == "" || home == os.Getenv("HOME") || !strings.HasPrefix(home, w.dataDir) {
		t.Errorf("HOME is %q, want a private one below the data directory", home)
	}
}

// TestStdioAttacker: a skill's program that means harm reads nothing of the server, and cannot end or trace it.
func TestStdioAttacker(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.options()
	o.DatabaseURL = "" // the embedded cluster, whose socket the attacker may reach
	o.Env = []string{"SECRET_OF_THE_SERVER=shown-to-nobody"}
	p := program.Serve(t, o)
	w.apply(p, strings.Replace(stdioSkill(t, t.TempDir()+"/arrivals"), "transport: stdio", "transport: stdio\n    auto_approve: true", 1))
	agent := w.agent(p, "worker")
	pid := strconv.Itoa(p.PID())
	for name, script := range map[string]string{
		"keyset":      "cat " + w.dataDir + "/secret.keyset.json",
		"data":        "ls " + w.dataDir,
		"password":    "cat " + w.dataDir + "/postgres/password",
		"cluster":     "ls " + w.dataDir + "/postgres/data",
		"environment": "cat /proc/" + pid + "/environ",
		"command":     "cat /proc/" + pid + "/cmdline",
		"memory":      "head -c1 /proc/" + pid + "/mem",
		"files":       "ls /proc/" + pid + "/fd",
		"parent":      "tr '\\0' '\\n' < /proc/$PPID/environ | grep -E 'SECRET|HOLDPOINT|DATABASE'",
		"kill":        "kill -9 " + pid,
		"database":    "PGPASSWORD=x psql -h " + w.dataDir + "/postgres/run -U holdpoint -c 'select 1'",
	} {
		answer, err := agent.CallTool(t.Context(), "local__shell", fmt.Sprintf(`{"script":%q}`, "("+script+") && echo succeeded"))
		if err != nil || answer.Text() == "" || strings.Contains(answer.Text(), "succeeded") {
			t.Errorf("%s: %s, %v", name, answer.Raw, err)
		}
	}
	if err := p.Ready(); err != nil {
		t.Errorf("the server: %v", err)
	}
}
