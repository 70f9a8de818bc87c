// Package cli owns the commands of holdpoint other than serve and demo: their
// flags, where settings come from, what they print, and their exit codes. All
// but migrate, keyset and doctor are clients of a running server and nothing more.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/client"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Env is all that commands know of the process they run in, and the settings
// that all of them share.
type Env struct {
	Getenv  func(string) string
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
	Now     func() time.Time
	Version string
	// Terminal: somebody sits at Stdin.
	Terminal bool
	// Interrupts tells of Ctrl-C. Nil: the process's own signals do.
	Interrupts <-chan os.Signal
	// Reseal encrypts again, with the key that encrypts now, what older keys of the keyset had
	// encrypted in a database, and returns how many rows that were. Nil: migrate leaves all as it is.
	Reseal func(ctx context.Context, db *postgres.DB, box *secret.Box) (int, error)
	// Refused lists the skills that may not run their programs under a policy. Nil: nobody knows.
	Refused func(ctx context.Context, db *postgres.DB, policy tool.StdioPolicy) ([]tool.RefusedSkill, error)
	// Examine takes the steps to a skill's server, up to the first that breaks, whose error it returns.
	Examine func(ctx context.Context, x Examination) error

	url    string
	token  string
	json   bool
	config string

	tokenEnds sync.Once // said
}

// Run runs the command that args name and returns the exit code. Further
// commands are added by whoever owns them.
func Run(ctx context.Context, e *Env, args []string, further ...*cobra.Command) int {
	root := newRoot(e)
	root.AddCommand(further...)
	root.SetArgs(args)
	root.SetIn(e.Stdin)
	root.SetOut(e.Stdout)
	root.SetErr(e.Stderr)
	command, err := root.ExecuteContextC(ctx)
	var exit *ExitError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &exit):
		e.complain(exit.Err)
		return exit.Code
	}
	e.complain(err)
	if _, ok := errors.AsType[*usageError](err); ok {
		fmt.Fprintf(e.Stderr, "See %q.\n", command.CommandPath()+" --help")
	}
	return ExitFailure
}

func (e *Env) complain(err error) {
	if err != nil {
		fmt.Fprintf(e.Stderr, "holdpoint: %s\n", Visible(describe(err)))
	}
}

// describe adds to an error what its text leaves out.
func describe(err error) string {
	var problem *client.Problem
	if !errors.As(err, &problem) {
		return err.Error()
	}
	var b strings.Builder
	b.WriteString(err.Error())
	if d := problem.Decision; d != nil {
		by := "nobody: the deadline passed"
		if d.By != nil {
			by = *d.By
		}
		fmt.Fprintf(&b, "\n  %s at %s by %s", d.Outcome, d.At.Format(time.RFC3339), by)
		if d.Note != "" {
			fmt.Fprintf(&b, ": %s", d.Note)
		}
	}
	if len(problem.Errors) > 1 {
		for _, field := range problem.Errors {
			fmt.Fprintf(&b, "\n  %s: %s", field.Location, field.Message)
		}
	}
	if problem.Status == 401 {
		b.WriteString("\n  Set HOLDPOINT_TOKEN or --token to a token, or to an agent's key.")
	}
	return b.String()
}

func newRoot(e *Env) *cobra.Command {
	root := &cobra.Command{
		Use:   "holdpoint",
		Short: "A hold point for the tool calls of AI agents",
		Long: `Holdpoint gives AI agents their tools, lets harmless calls pass, and parks every
other one until a person approves it.

Client commands reach a server at --url with the credential --token.
Settings come from flags, then HOLDPOINT_… variables; those of the server
itself then from the part "server:" of holdpoint.yaml.`,
		SilenceUsage:      true,
		SilenceErrors:     true,
		Args:              usage(cobra.NoArgs),
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return e.resolveSettings(cmd) },
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	flags := root.PersistentFlags()
	flags.StringVar(&e.url, "url", "http://127.0.0.1:8080", "where the server is reached (HOLDPOINT_URL)")
	flags.StringVar(&e.token, "token", "", "a person's token or an agent's key (HOLDPOINT_TOKEN)")
	flags.BoolVar(&e.json, "json", false, "print JSON, in the shapes of the API")
	flags.StringVar(&e.config, "config", "", `file with the server's settings (HOLDPOINT_CONFIG, else ./holdpoint.yaml if there is one)`)
	root.AddCommand(
		newApplyCmd(e), newAgentCmd(e), newSkillCmd(e), newTokenCmd(e), newInvitationCmd(e),
		newToolsCmd(e), newCallCmd(e), newChatCmd(e), newConnectCmd(e), newApprovalsCmd(e), newCallsCmd(e), newFilesCmd(e), newInsightsCmd(e),
		newConversationsCmd(e), newAuditCmd(e),
		newConnectionsCmd(e), newPeopleCmd(e), newWebhooksCmd(e),
		newServerCmd(e), newMigrateCmd(e), newKeysetCmd(e), newDoctorCmd(e), newVersionCmd(e),
	)
	return root
}

// group is a command that only holds others.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short,
		Args: usage(func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("name one of its commands")
			}
			return fmt.Errorf("unknown command %q for %q", args[0], cmd.CommandPath())
		}),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(commands...)
	return cmd
}

// client is the way to the server.
func (e *Env) client() (*client.Client, error) {
	return e.clientWith(e.token)
}

// clientWith is a client with another credential than the environment's.
func (e *Env) clientWith(token string) (*client.Client, error) {
	return client.New(client.Config{URL: e.url, Token: token, Version: e.Version, TokenEnds: func(at time.Time) {
		e.tokenEnds.Do(func() {
			e.notef("Your token ends on %s. Make a new one with: holdpoint token create", moment(&at))
		})
	}})
}

// usageError is bad use of a command.
type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }

func misuse(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// usage makes complaints about arguments complaints about use.
func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return &usageError{err}
		}
		return nil
	}
}
