package cli_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/cli"
)

// serve is a command of the server that prints its settings.
func serve() []*cobra.Command {
	var addr, dataDir string
	var hosts []string
	var self bool
	cmd := &cobra.Command{
		Use: "serve",
		RunE: func(cmd *cobra.Command, _ []string) error {
			fmt.Fprintln(cmd.OutOrStdout(), addr, dataDir, strings.Join(hosts, "+"), self)
			return nil
		},
	}
	cmd.Flags().StringVar(&addr, "addr", ":8080", "")
	cmd.Flags().StringVar(&dataDir, "data-dir", "-", "")
	cmd.Flags().StringSliceVar(&hosts, "trusted-hosts", nil, "")
	cmd.Flags().BoolVar(&self, "allow-self-approval", false, "")
	return []*cobra.Command{cli.ServerSettings(cmd)}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "holdpoint.yaml", `
skills: [{name: whatever}]
server:
  addr: "127.0.0.1:9000"
  "data_dir": /from/file
  trusted_hosts: [a.example, b.example]
  allow_self_approval: true
`)
	tests := []struct {
		name string
		env  map[string]string
		args []string
		want string
	}{
		{"defaults", nil, nil, ":8080 -  false"},
		{"file", nil, []string{"--config", file}, "127.0.0.1:9000 /from/file a.example+b.example true"},
		{"file by variable", map[string]string{"HOLDPOINT_CONFIG": file}, nil, "127.0.0.1:9000 /from/file a.example+b.example true"},
		{
			"variables before the file",
			map[string]string{"HOLDPOINT_DATA_DIR": "/from/variable", "HOLDPOINT_TRUSTED_HOSTS": "c,d", "HOLDPOINT_ALLOW_SELF_APPROVAL": "false"},
			[]string{"--config", file},
			"127.0.0.1:9000 /from/variable c+d false",
		},
		{
			"flags before all",
			map[string]string{"HOLDPOINT_DATA_DIR": "/from/variable"},
			[]string{"--config", file, "--data-dir", "/from/flag", "--addr="},
			" /from/flag a.example+b.example true",
		},
		{"empty variable", map[string]string{"HOLDPOINT_ADDR": ""}, nil, ":8080 -  false"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := runWith(t, test.env, "", serve(), append([]string{"serve"}, test.args...)...).wantCode(t, 0)
			if got.stdout != test.want+"\n" {
				t.Errorf("got %q, want %q", got.stdout, test.want)
			}
		})
	}
}

func TestSettingErrors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"server: {adr: x}":                  `holdpoint.yaml:1:10: server: unknown setting "adr"`,
		"server:\n  addr: [x\n":             "holdpoint.yaml:2:",
		"server: [x]":                       "holdpoint.yaml:1:9: server: must be a mapping",
		"server: {addr: {a: b}}":            "holdpoint.yaml:1:10: server.addr: must be a value",
		"server: {addr: null}":              "holdpoint.yaml:1:10: server.addr: must be a value",
		"server: {allow_self_approval: ja}": "holdpoint.yaml:1:31: server.allow_self_approval: ",
	} {
		got := runWith(t, nil, "", serve(), "serve", "--config", writeFile(t, "holdpoint.yaml", text)).wantCode(t, 1)
		wantContains(t, text, got.stderr, want)
	}
	runWith(t, nil, "", serve(), "serve", "--config", "/nonexistent").wantCode(t, 1)
	got := runWith(t, map[string]string{"HOLDPOINT_ALLOW_SELF_APPROVAL": "ja"}, "", serve(), "serve").wantCode(t, 1)
	wantContains(t, "variable", got.stderr, "HOLDPOINT_ALLOW_SELF_APPROVAL: ")
}

// TestClientSettings: a file does not say where a client sends its token.
func TestClientSettings(t *testing.T) {
	t.Parallel()
	f := newFake(t).setAnswer("GET /api/v1/agents", `{"items":[]}`)
	file := writeFile(t, "holdpoint.yaml", "server: {url: http://evil.example}\nurl: http://evil.example\n")
	env := f.env()
	env["HOLDPOINT_CONFIG"] = file
	run(t, env, "", "agent", "list").wantCode(t, 0)
	run(t, nil, "", "agent", "list", "--url", f.URL, "--token", "other").wantCode(t, 0)
	if got := f.header.Get("Authorization"); got != "Bearer other" {
		t.Errorf("Authorization %q", got)
	}
	for _, wrong := range []string{"nonsense", "ftp://x", "http://", "127.0.0.1:8080"} {
		got := run(t, nil, "", "agent", "list", "--url", wrong).wantCode(t, 1)
		wantContains(t, wrong, got.stderr, "must be a URL")
	}
}
