package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestApplyRules: a dry run shows the changes of rules and stores nothing, and an error is at its line, also one of a condition.
func TestApplyRules(t *testing.T) {
	t.Parallel()
	s, _, _ := openEdge(t, nil)
	address := "http://" + s.listener.Addr().String()
	file := filepath.Join(t.TempDir(), "holdpoint.yaml")
	apply := func(text string, args ...string) (stdout, stderr string, code int) {
		t.Helper()
		check(t, os.WriteFile(file, []byte(text), 0o600))
		env := map[string]string{"HOLDPOINT_URL": address, "HOLDPOINT_TOKEN": edgeToken}
		var out, complaints bytes.Buffer
		code = run(t.Context(), append([]string{"apply", "-f", file}, args...), func(name string) string { return env[name] }, strings.NewReader(""), &out, &complaints)
		return out.String(), complaints.String(), code
	}
	const small = "rules:\n  - {name: small, tools: [pay], when: args.amount <= 100.0, effect: allow, mode: shadow}\n"
	const created = "+ rule small\n    tools: [\"pay\"]\n    when: args.amount <= 100.0\n    effect: allow\n    mode: shadow\n"
	enforced := strings.Replace(small, "shadow", "enforce", 1)
	for _, step := range []struct {
		text string
		args []string
		want string
	}{
		{small, []string{"--dry-run"}, created + "1 would be created, 0 would be changed, 0 would be deleted, 0 unchanged\n"},
		{small, nil, created + "1 created, 0 changed, 0 deleted, 0 unchanged\n"},
		{small, nil, "= rule small\n0 created, 0 changed, 0 deleted, 1 unchanged\n"},
		{enforced, nil, "~ rule small\n    mode: shadow → enforce\n0 created, 1 changed, 0 deleted, 0 unchanged\n"},
	} {
		if stdout, stderr, code := apply(step.text, step.args...); code != 0 || stdout != step.want {
			t.Errorf("apply %v: exit code %d\n%s%s\nwant\n%s", step.args, code, stdout, stderr, step.want)
		}
	}
	for text, want := range map[string]string{
		strings.Replace(small, "<=", "=", 1):                                                               ":2:33: rules[0].when: 1:13: unexpected =: write == to compare",
		strings.Replace(small, "allow", "approve", 1):                                                      ":2:61: rules[0].effect: must be allow, park or deny",
		"rules:\n  - name: small\n    effect: park\n    when: |\n      args.a == 1 &&\n      amount > 2\n": ":4:5: rules[0].when: 2:1: unknown name amount",
		"rules: [{name: small, efect: park}]":                                                              `unknown key "efect"`,
		small + "  - {name: small, effect: deny}\n":                                                        `:3:6: rules[1].name: must be a name of its own: "small" is declared at `,
	} {
		if _, stderr, code := apply(text); code != 1 || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d\n%s\nwant %s", text, code, stderr, want)
		}
	}
}
