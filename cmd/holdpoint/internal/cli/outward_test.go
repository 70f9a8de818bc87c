package cli_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/cli"
)

// reaching is a command of the server that prints its trusted hosts and its own identity token.
func reaching() []*cobra.Command {
	var o cli.Outward
	cmd := &cobra.Command{
		Use: "serve",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Check(); err != nil {
				return err
			}
			token := "none"
			if read := o.WorkloadToken(); read != nil {
				var err error
				if token, err = read(cmd.Context()); err != nil {
					return err
				}
			}
			fmt.Fprintln(cmd.OutOrStdout(), strings.Join(o.TrustedHosts, " ")+" "+token)
			return nil
		},
	}
	o.Bind(cmd)
	return []*cobra.Command{cli.ServerSettings(cmd)}
}

func TestTrustedHosts(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "holdpoint.yaml", "server: {trusted_hosts: [as.example, \"10.0.0.1:8080\"]}")
	for given, want := range map[string]string{
		"localhost": "localhost", "as.corp:8443": "as.corp:8443", "a_b-c.example": "a_b-c.example",
		"127.0.0.1": "127.0.0.1", "127.0.0.1:80": "127.0.0.1:80",
		"::1": "::1", "[::1]": "::1", "[::1]:443": "[::1]:443", "a,b:1": "a b:1",
	} {
		if got := runWith(t, nil, "", reaching(), "serve", "--trusted-hosts", given).wantCode(t, 0); got.stdout != want+" none\n" {
			t.Errorf("%s: got %q", given, got.stdout)
		}
	}
	if got := runWith(t, nil, "", reaching(), "serve", "--config", file).wantCode(t, 0); got.stdout != "as.example 10.0.0.1:8080 none\n" {
		t.Errorf("file: got %q", got.stdout)
	}
	if got := runWith(t, map[string]string{"HOLDPOINT_TRUSTED_HOSTS": "a,b"}, "", reaching(), "serve").wantCode(t, 0); got.stdout != "a b none\n" {
		t.Errorf("variable: got %q", got.stdout)
	}
	for _, wrong := range []string{
		"https://as.example", "as.example/path", "*.example", "*", "user@as.example", "as example", "as.example:", "as.example:0",
		"as.example:65536", "as.example:+80", "as.example:080", ":80", "-as.example", ".example", "bücher.example", "[::1", "fe80::1%eth0",
		"[as.example]:80", strings.Repeat("a", 300),
	} {
		got := runWith(t, nil, "", reaching(), "serve", "--trusted-hosts", wrong).wantCode(t, 1)
		wantContains(t, wrong, got.stderr, "--trusted-hosts", `must be "host" or "host:port"`)
	}
}

func TestWorkloadToken(t *testing.T) {
	t.Parallel()
	const token = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJob2xkcG9pbnQifQ.c2lnbmF0dXJl"
	path := writeFile(t, "token", token+"\n")
	if got := runWith(t, nil, "", reaching(), "serve", "--workload-token-file", path).wantCode(t, 0); got.stdout != " "+token+"\n" {
		t.Errorf("got %q", got.stdout)
	}
	const wrong = "s3cret"
	for name, text := range map[string]string{
		"empty": "", "no JWT": wrong, "two parts": "a." + wrong, "four parts": "a.b.c." + wrong, "two tokens": token + "\n" + token,
		"more than one": token + " " + wrong, "too long": "a.b." + strings.Repeat(wrong, 20_000),
	} {
		got := runWith(t, nil, "", reaching(), "serve", "--workload-token-file", writeFile(t, "token", text)).wantCode(t, 1)
		wantContains(t, name, got.stderr, "--workload-token-file")
		if strings.Contains(got.stderr, wrong) {
			t.Errorf("%s: the file's content is shown: %s", name, got.stderr)
		}
	}
	for _, path := range []string{"/nonexistent/token", t.TempDir()} {
		wantContains(t, path, runWith(t, nil, "", reaching(), "serve", "--workload-token-file", path).wantCode(t, 1).stderr, path)
	}
}

// TestWorkloadTokenAnew: a rotated file takes effect without a restart.
func TestWorkloadTokenAnew(t *testing.T) {
	t.Parallel()
	o := cli.Outward{WorkloadTokenFile: writeFile(t, "token", "a.b.c")}
	read := o.WorkloadToken()
	for _, want := range []string{"a.b.c", "d.e.f"} {
		if err := os.WriteFile(o.WorkloadTokenFile, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := read(t.Context()); err != nil || got != want {
			t.Errorf("got %q, %v", got, err)
		}
	}
	if err := os.Remove(o.WorkloadTokenFile); err != nil {
		t.Fatal(err)
	}
	if _, err := read(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
