package cli_test

import (
	"fmt"
	"testing"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/cli"
)

// guarding is a command of the server that prints its settings about connections.
func guarding() []*cobra.Command {
	var e cli.Edge
	cmd := &cobra.Command{
		Use: "serve",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := e.Check(); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), e.Proxies())
			return nil
		},
	}
	e.Bind(cmd)
	return []*cobra.Command{cli.ServerSettings(cmd)}
}

func TestTrustedProxies(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "holdpoint.yaml", "server: {trusted_proxies: [10.0.0.7, \"fd00::/8\"]}")
	if got := runWith(t, nil, "", guarding(), "serve", "--config", file).wantCode(t, 0); got.stdout != "[10.0.0.7/32 fd00::/8]\n" {
		t.Errorf("file: got %q", got.stdout)
	}
	if got := runWith(t, nil, "", guarding(), "serve", "--trusted-proxies", "10.1.2.3/8,::1").wantCode(t, 0); got.stdout != "[10.0.0.0/8 ::1/128]\n" {
		t.Errorf("flag: got %q", got.stdout)
	}
	for _, wrong := range []string{"proxy.example", "10.0.0.1:80", "0.0.0.0/0"} {
		got := runWith(t, nil, "", guarding(), "serve", "--trusted-proxies", wrong).wantCode(t, 1)
		wantContains(t, wrong, got.stderr, "--trusted-proxies", wrong, "must be")
	}
}
