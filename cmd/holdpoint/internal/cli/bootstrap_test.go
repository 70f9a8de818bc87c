package cli_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/cli"
)

func TestBootstrapToken(t *testing.T) {
	t.Parallel()
	const token = "0123456789abcdef0123456789abcdef"
	path := writeFile(t, "token", token+"\n")
	file := writeFile(t, "holdpoint.yaml", "server: {bootstrap_token_file: "+path+"}")
	serving := func(stdin string) []*cobra.Command {
		var b cli.Bootstrap
		cmd := &cobra.Command{Use: "serve", RunE: func(cmd *cobra.Command, _ []string) error {
			e := &cli.Env{Stdin: strings.NewReader(stdin), Stderr: cmd.ErrOrStderr()}
			token, err := b.Read(cmd, e)
			fmt.Fprintln(cmd.OutOrStdout(), token)
			return err
		}}
		b.Bind(cmd)
		return []*cobra.Command{cli.ServerSettings(cmd)}
	}
	for _, c := range []struct {
		name, stdin string
		env         map[string]string
		args        []string
		warns       bool
	}{
		{name: "file", args: []string{"--bootstrap-token-file", path}},
		{name: "standard input", stdin: token + "\n", args: []string{"--bootstrap-token-file", "-"}},
		{name: "variable", env: map[string]string{"HOLDPOINT_BOOTSTRAP_TOKEN": token}},
		{name: "variable of the file", env: map[string]string{"HOLDPOINT_BOOTSTRAP_TOKEN_FILE": path}},
		{name: "settings", args: []string{"--config", file}},
		{name: "command line", args: []string{"--bootstrap-token", token}, warns: true},
	} {
		got := runWith(t, c.env, "", serving(c.stdin), append([]string{"serve"}, c.args...)...).wantCode(t, 0)
		if got.stdout != token+"\n" || strings.Contains(got.stderr, "deprecated") != c.warns || strings.Contains(got.stderr, token) {
			t.Errorf("%s: got %q, %q", c.name, got.stdout, got.stderr)
		}
	}
	for name, args := range map[string][]string{
		"must have at least 32":                                           {"--bootstrap-token", "x"},
		"must be a token: it is empty":                                    {"--bootstrap-token-file", "-"},
		"must be left out if the bootstrap token is given in another way": {"--bootstrap-token-file", path, "--bootstrap-token", token},
		"no such file": {"--bootstrap-token-file", path + "x"},
	} {
		got := runWith(t, nil, "", serving(""), append([]string{"serve"}, args...)...).wantCode(t, 1)
		wantContains(t, name, got.stderr, name)
	}
}
