package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/approval/grant"
	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/cli"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime"
	"github.com/holdpoint/holdpoint/ui"
)

func newServeCmd(e *cli.Env) *cobra.Command {
	settings := serverSettings{}
	level := "info"
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the server: agents' endpoints, JSON API, dashboard, workers",
		Long: `Run the server: agents' MCP endpoints, the JSON API, the dashboard and the workers.

DATABASE_URL names a PostgreSQL 14 or newer; without it Holdpoint runs one of its own in the data
directory. Any number of servers run on one database; they need the same encryption key.`,
		Example: `  holdpoint serve
  DATABASE_URL=postgres://holdpoint@db/holdpoint holdpoint serve --addr :8080 --public-url https://gate.example.com`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT)
			defer stop()
			accepting, stopAccepting := signal.NotifyContext(ctx, syscall.SIGTERM)
			defer stopAccepting()
			if err := settings.readEnvironment(e); err != nil {
				return err
			}
			var err error
			if settings.BootstrapToken, err = settings.Bootstrap.Read(cmd, e); err != nil {
				return err
			}
			var lowest slog.Level
			if err := lowest.UnmarshalText([]byte(level)); err != nil {
				return fmt.Errorf("--log-level %q: must be debug, info, warn or error", level)
			}
			log := newLogger(e.Stderr, e.StderrTerminal, lowest)
			if addr := e.Getenv("HOLDPOINT_PPROF"); addr != "" {
				if err := startPprof(ctx, addr, settings.Edge, log); err != nil {
					return err
				}
			}
			s, err := openServer(accepting, settings, e.Version, log)
			switch {
			case errors.Is(err, context.Canceled) && accepting.Err() != nil:
				log.Info("stopped while it started")
				return nil
			case err != nil:
				return err
			}
			log.Info("serving", "addr", s.listener.Addr().String(), "public_url", s.settings.PublicURL,
				"version", e.Version, "embedded_database", s.db.Embedded())
			if err := s.welcomeFirst(accepting, e); err != nil && accepting.Err() == nil {
				log.Warn("the first person was not welcomed: make a sign-in link with holdpoint invite --first if nobody can sign in", "error", err)
			}
			return s.serve(ctx, accepting)
		},
	}
	settings.bindFlags(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&settings.AfterRestore, "after-restore", false,
		"mark approved and executing calls unknown at this start: the database was restored, or lost commits in a failover")
	flags.BoolVar(&settings.AllowSelfApproval, "allow-self-approval", false, "let people decide calls made on their own behalf")
	flags.BoolVar(&settings.DualControl, "dual-control", false, "let changes that loosen, such as auto_approve, wait for a second operator")
	flags.BoolVar(&settings.SeparateRoles, "separate-roles", false, "let nobody be operator and reviewer; of two roles, the later one does not count")
	flags.BoolVar(&settings.TokensOff, "no-person-tokens", false, "switch personal tokens off: people sign in with the identity provider only")
	flags.BoolVar(&settings.AsyncOutcomes, "async-outcomes", false,
		"answer auto-approved calls before their outcome is on the database's disk: faster, and a crash of the database may forget outcomes")
	flags.BoolVar(&settings.Experimental, "experimental", false, "follow drafts of MCP about approvals (SEP-2848, SEP-2643), which may change or be dropped")
	flags.BoolVar(&settings.StdioFromDashboard, "stdio-from-dashboard", false, "let operators set commands in the dashboard")
	flags.DurationVar(&settings.HighRiskMaxAge, "high-risk-max-age", ui.DefaultProofAge,
		"how long ago a reviewer may have signed in to approve calls of high risk in the dashboard")
	flags.DurationVar(&settings.MaxGrantTime, "max-grant-time", grant.DefaultMaxTime, "how long a grant may last")
	flags.DurationVar(&settings.PersonTokenTTL, "person-token-ttl", identity.DefaultTokenTTL, "how long a new token of a person is valid")
	flags.DurationVar(&settings.AgentKeyTTL, "agent-key-ttl", 0, "how long a new key of an agent is valid (default until it is revoked)")
	flags.IntVar(&settings.MaxConns, "max-conns", postgres.DefaultMaxConns, "connections to the database")
	flags.StringVar(&settings.EncryptionKeyFile, "encryption-key-file", "", "file of the key for secrets (default secret.keyset.json in the data directory)")
	settings.Gateways.Bind(cmd)
	settings.Keep.Bind(cmd)
	settings.Providers.Bind(cmd)
	settings.TokenIssuers.Bind(cmd)
	cli.BindFilesURL(cmd, &settings.FilesURL)
	flags.Int64Var(&settings.MaxFileSize, "max-file-size", runtime.DefaultMaxFileSize, "how large an attached file may be, in bytes")
	flags.StringSliceVar(&settings.FileTypes, "file-types", nil, "media types that attached files may have, like application/pdf,image/* (default all)")
	cli.BindKeysetKMS(cmd, &settings.KeysetKMSURI)
	flags.StringVar(&level, "log-level", level, "debug, info, warn or error")
	return cli.ServerSettings(cmd)
}

// welcomeFirst lets the first person sign in if there is no way yet. A terminal gets a link. A log, which is kept, gets the name of the command
// that makes such a link.
func (s *server) welcomeFirst(ctx context.Context, e *cli.Env) error {
	if s.settings.BootstrapToken != "" || len(s.vouching) > 0 {
		return nil
	}
	people := s.runtime.Identity
	arrived, err := people.HasPeople(ctx)
	if err != nil || arrived {
		return err
	}
	if !e.StdoutTerminal {
		s.log.Warn("nobody can sign in yet: make a sign-in link with the settings of this server", "command", "holdpoint invite --first")
		return nil
	}
	credential, err := people.CreateFirstLink(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(e.Stdout, "\n  Nobody can sign in yet. This link signs you in as operator, once, within %s:\n\n  %s\n\n",
		identity.FirstLinkTTL, cli.SignInURL(s.settings.PublicURL, credential))
	return err
}

// bindFlags adds the flags that serve and demo share.
func (s *serverSettings) bindFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&s.Addr, "addr", defaultAddr, "address to listen on")
	flags.StringVar(&s.DataDir, "data-dir", "", "directory for the embedded database, keys and homes of skills")
	flags.StringVar(&s.PublicURL, "public-url", "", "where people and agents reach this server (default http:// and the address)")
	s.Bootstrap.Bind(cmd)
	s.Outward.Bind(cmd)
	s.Edge.Bind(cmd)
	s.Stdio.Bind(cmd)
}

// readEnvironment adds the settings from the environment, and the data directory.
func (s *serverSettings) readEnvironment(e *cli.Env) error {
	s.DatabaseURL, s.SessionURL, s.ReadURL = e.Getenv("DATABASE_URL"), e.Getenv(postgres.SessionURLVariable), e.Getenv(postgres.ReadURLVariable)
	s.Path = e.Getenv("PATH")
	s.EncryptionKey = e.Getenv("HOLDPOINT_ENCRYPTION_KEY")
	s.Getenv = e.Getenv
	var err error
	if s.Models, err = readModelDefaults(e.Getenv); err != nil {
		return err
	}
	if err := s.Edge.Check(); err != nil {
		return err
	}
	if s.DataDir == "" {
		s.DataDir, err = postgres.DefaultDataDir(e.Getenv)
		if err != nil && cli.NeedsDataDir(s.DatabaseURL, cmp.Or(s.EncryptionKey, s.EncryptionKeyFile), s.FilesURL) {
			return err
		}
	}
	s.Programs, err = s.Stdio.Policy(e, s.DataDir, s.privatePaths()...)
	return err
}

// privatePaths are the files and folders outside the data directory that no skill's program may reach.
func (s *serverSettings) privatePaths() []string {
	paths := []string{
		s.EncryptionKeyFile, s.Providers.File, s.TokenIssuers.File, s.Outward.WorkloadTokenFile, s.Edge.MetricsTokenFile, s.Edge.TLSCert, s.Edge.TLSKey,
		s.Bootstrap.File, s.Gateways.Key,
	}
	if files, err := url.Parse(s.FilesURL); err == nil && files.Scheme == "file" {
		paths = append(paths, files.Path)
	}
	return paths
}
