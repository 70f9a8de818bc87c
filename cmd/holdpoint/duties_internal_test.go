package main

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/cli"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
	"github.com/holdpoint/holdpoint/internal/secret"
)

// TestSeparationOfDutiesNeedsTwo: the server does not start with settings that nobody, or one person alone, could live with.
func TestSeparationOfDutiesNeedsTwo(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	keyset, err := secret.NewKeyset()
	check(t, err)
	for want, change := range map[string]func(*serverSettings){
		"--dual-control: must be off until there are two operators":              func(s *serverSettings) { s.DualControl = true },
		"--separate-roles: must be off until one person is an operator":          func(s *serverSettings) { s.SeparateRoles = true },
		"--no-person-tokens: must be off without an identity provider (--oidc-c": func(s *serverSettings) { s.TokensOff = true },
	} {
		settings := serverSettings{
			Addr: "127.0.0.1:0", DataDir: t.TempDir(), DatabaseURL: db.Pool().Config().ConnString(), BootstrapToken: edgeToken, MaxConns: 5,
			EncryptionKey: keyset, Getenv: func(string) string { return "" }, Edge: cli.Edge{MaxConnections: 100, MaxConnectionsPerAddress: 100},
		}
		change(&settings)
		s, err := openServer(t.Context(), settings, "1.2.3", slog.New(slog.DiscardHandler))
		if err == nil {
			check(t, s.close())
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}
