package e2e_test

import (
	"encoding/json"
	"os"
	"slices"
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
		if !slices.Contains([]string{"PATH", "LANG", "HOME", "GIVEN"}, name) {
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
