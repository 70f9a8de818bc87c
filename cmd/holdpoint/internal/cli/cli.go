// Package cli owns the commands of holdpoint other than serve and demo: their flags, settings, output and exit codes.
// All but migrate, keyset, doctor and rules test are only clients of a running server.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/client"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// defaultURL is the default of --url: the server on this machine.
const defaultURL = "http://127.0.0.1:8080"

// Env is the environment of commands: the process, and the settings that all of them share.
type Env struct {
	Getenv  func(string) string
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
	Now     func() time.Time
	Version string
	// Terminal says that Stdin is a terminal; StdoutTerminal and StderrTerminal say it of the others.
	Terminal, StdoutTerminal, StderrTerminal bool
	// Interrupts receives Ctrl-C. Nil: the signals of the process.
	Interrupts <-chan os.Signal
	// Reseal encrypts with the keyset's primary key the secrets that older keys encrypted, and returns the number of rows. Nil: migrate leaves them as they are.
	Reseal func(ctx context.Context, db *postgres.DB, box *secret.Box) (int, error)
	// Refused lists the skills that may not run their programs under a policy. Nil: doctor does not check.
	Refused func(ctx context.Context, db *postgres.DB, policy tool.StdioPolicy) ([]tool.RefusedSkill, error)
	// Examine connects to a skill's server step by step and returns the error of the step that fails.
	Examine func(ctx context.Context, x Examination) error

	url    string
	token  string
	json   bool
	config string

	tokenEnds sync.Once // noted
}

// Run runs the command that args name and returns the exit code. Commands of other packages are passed in further.
func Run(ctx context.Context, e *Env, args []string, further ...*cobra.Command) int {
	root := NewRoot(e, further...)
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
		e.printError(exit.Err)
		return exit.Code
	case command.Annotations[hookKey] != "":
		return e.denyHook(args, err)
	}
	if problem, ok := errors.AsType[*client.Problem](err); ok {
		if problem.Change != "" {
			e.notef("%s", Visible(problem.Detail))
			return ExitWaits
		}
		nameFlags(command, problem)
	}
	e.printError(err)
	if _, ok := errors.AsType[*usageError](err); ok {
		fmt.Fprintf(e.Stderr, "See %q.\n", command.CommandPath()+" --help")
	}
	return ExitFailure
}

func (e *Env) printError(err error) {
	if err != nil {
		fmt.Fprintf(e.Stderr, "holdpoint: %s\n", Visible(describeError(err)))
	}
}

// nameFlags replaces the fields in a problem with a request by the flags of the command that set them.
func nameFlags(cmd *cobra.Command, problem *client.Problem) {
	for i, field := range problem.Errors {
		location, message := nameFlag(cmd, field)
		problem.Detail = strings.ReplaceAll(problem.Detail, field.Location+": "+field.Message, location+": "+message)
		problem.Errors[i] = client.ProblemField{Location: location, Message: message}
	}
}

// missingField is the API's text for a body without a required field.
var missingField = regexp.MustCompile(`^expected required property (\S+) to be present$`)

// nameFlag returns the flag that sets a field of the request, and the expected value. Without such a flag, they stay as the API names them.
func nameFlag(cmd *cobra.Command, field client.ProblemField) (location, message string) {
	path, message := field.Location, field.Message
	if missing := missingField.FindStringSubmatch(message); missing != nil {
		path, message = path+"."+missing[1], "must be given"
	}
	path, inBody := strings.CutPrefix(path, "body.")
	name := strings.NewReplacer(".", "-", "_", "-").Replace(path)
	switch {
	case !inBody:
	case cmd.Flags().Lookup(name) != nil:
		return "--" + name, message
	case cmd.Flags().Lookup(name+"-file") != nil:
		return "--" + name + "-env or --" + name + "-file", message
	}
	return field.Location, field.Message
}

// describeError adds to an error the details that its text leaves out.
func describeError(err error) string {
	var problem *client.Problem
	if !errors.As(err, &problem) {
		if errors.Is(err, syscall.ECONNREFUSED) {
			return err.Error() + "\n  No server answers there. Start one with \"holdpoint serve\", or name it with --url or HOLDPOINT_URL."
		}
		return err.Error()
	}
	var b strings.Builder
	b.WriteString(err.Error())
	if d := problem.Decision; d != nil {
		by := ": the deadline passed"
		if d.By != nil {
			by = " by " + *d.By
		}
		fmt.Fprintf(&b, "\n  %s at %s%s", d.Outcome, d.At.Format(time.RFC3339), by)
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

// NewRoot returns the command holdpoint with all commands below it. Commands of other packages are passed in further.
func NewRoot(e *Env, further ...*cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use:   "holdpoint",
		Short: "A hold point for the tool calls of AI agents",
		Long: `Holdpoint gives AI agents their tools. Harmless calls pass; all others are parked until a
person approves them.

Client commands reach the server at --url with the credential --token. Settings come from
flags, then from HOLDPOINT_… variables. Settings of the server come last from the section
"server:" of holdpoint.yaml.`,
		SilenceUsage:      true,
		SilenceErrors:     true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return e.resolveSettings(cmd) },
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{explainValue(err)} })
	flags := root.PersistentFlags()
	flags.StringVar(&e.url, "url", defaultURL, "URL of the server (HOLDPOINT_URL)")
	flags.StringVar(&e.token, "token", "", "a person's token or an agent's key (HOLDPOINT_TOKEN)")
	flags.BoolVar(&e.json, "json", false, "print JSON, in the shapes of the API")
	flags.StringVar(&e.config, "config", "", `file with the server's settings (HOLDPOINT_CONFIG, default ./holdpoint.yaml if it exists)`)
	root.AddCommand(
		newApplyCmd(e), newDiffCmd(e), newExportCmd(e), newSchemaCmd(e), newAgentCmd(e), newSkillCmd(e), newTokenCmd(e), newInviteCmd(e), newInvitationCmd(e),
		newToolsCmd(e), newCallCmd(e), newChatCmd(e), newConnectCmd(e), newHookCmd(e), newApprovalsCmd(e), newCallsCmd(e), newFilesCmd(e),
		newInsightsCmd(e), newConversationsCmd(e), newAuditCmd(e), newRulesCmd(e), newPoliciesCmd(e), newGrantsCmd(e), newPlansCmd(e), newChangesCmd(e),
		newConnectionsCmd(e), newPeopleCmd(e), newTeamsCmd(e), newAwayCmd(e), newWebhooksCmd(e), newHoldsCmd(e),
		newAPICmd(e), newServerCmd(e), newHealthCmd(e), newMigrateCmd(e), newKeysetCmd(e), newDoctorCmd(e), newGuardCmd(e), newVersionCmd(e),
	)
	e.deriveArguments(root)
	root.AddCommand(further...)
	return root
}

// deriveArguments lets commands without Args take the arguments that their usage line names, such as "show AGENT".
// Names of agents and skills are completed.
func (e *Env) deriveArguments(cmd *cobra.Command) {
	var names []string
	for _, word := range strings.Fields(cmd.Use)[1:] {
		if strings.HasPrefix(word, "-") || strings.HasPrefix(word, "[") {
			break
		}
		names = append(names, word)
	}
	switch {
	case cmd.Args != nil:
	case len(names) == 0:
		cmd.Args = usage(takeNoArguments)
	default:
		cmd.Args = usage(cobra.ExactArgs(len(names)))
	}
	lists := map[string]string{"AGENT": "agents?limit=200", "SKILL": "skills?limit=200", "RULE": "rules", "POLICY": "policies"}
	if len(names) > 0 && lists[names[0]] != "" && cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = e.completeNames(lists[names[0]])
	}
	for _, below := range cmd.Commands() {
		e.deriveArguments(below)
	}
}

// takeNoArguments refuses arguments. Of a command that holds others, an argument is the name of one.
func takeNoArguments(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case cmd.HasSubCommands():
		return unknownCommand(cmd, args[0])
	case cmd.Flags().Lookup("file") != nil:
		return fmt.Errorf("unexpected argument %q: name files with -f %s", args[0], args[0])
	}
	return fmt.Errorf("unexpected argument %q: %q takes none", args[0], cmd.CommandPath())
}

// unknownCommand names commands with similar names, also those of other groups, such as "approvals approve" for "approve".
func unknownCommand(cmd *cobra.Command, name string) error {
	const most = 4 // more are no help, as for "list"
	cmd.SuggestionsMinimumDistance = 2
	similar := cmd.SuggestionsFor(name)
	if len(similar) == 0 {
		for _, group := range cmd.Root().Commands() {
			group.SuggestionsMinimumDistance = 1
			for _, command := range group.SuggestionsFor(name) {
				similar = append(similar, group.Name()+" "+command)
			}
		}
	}
	text := fmt.Sprintf("unknown command %q for %q", name, cmd.CommandPath())
	if len(similar) > 0 && len(similar) <= most {
		text += ": did you mean " + strings.Join(similar, " or ") + "?"
	}
	return errors.New(text)
}

// numberError is the text of package strconv in errors about flags.
var numberError = regexp.MustCompile(`strconv\.Parse(Int|Uint|Float|Bool): parsing ".*": (invalid syntax|value out of range)`)

// explainValue replaces the text of package strconv in an error about a value by the expected value.
func explainValue(err error) error {
	found := numberError.FindStringSubmatch(err.Error())
	if found == nil {
		return err
	}
	wanted := map[string]string{"Int": "must be a whole number", "Uint": "must be a whole number, at least 0", "Float": "must be a number", "Bool": "must be true or false"}[found[1]]
	return errors.New(strings.Replace(err.Error(), found[0], wanted, 1))
}

// newGroup makes a command that only holds others.
func newGroup(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short,
		Args: usage(func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("name one of its commands")
			}
			return unknownCommand(cmd, args[0])
		}),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(commands...)
	return cmd
}

// withClient makes a RunE of a function that needs a client of the server.
func (e *Env) withClient(run func(ctx context.Context, api *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		api, err := e.newClient(e.token)
		if err != nil {
			return err
		}
		return run(cmd.Context(), api, args)
	}
}

// showOne makes a RunE that sends a request about the subject of the first argument, and shows the answer.
func showOne[T any](e *Env, request func(*client.Client, context.Context, string) (client.Reply[T], error), show func(*T) error) func(*cobra.Command, []string) error {
	return e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
		reply, err := request(api, ctx, args[0])
		return printReply(e, reply, err, show)
	})
}

// listPage makes a RunE that prints one page of a list. The fields of the query are flags.
func listPage[T, Q any](e *Env, request func(*client.Client, context.Context, Q) (client.Reply[client.List[T]], error), query *Q,
	header []string, row func(*T) []string,
) func(*cobra.Command, []string) error {
	return e.withClient(func(ctx context.Context, api *client.Client, _ []string) error {
		reply, err := request(api, ctx, *query)
		return printList(e, reply, err, header, row)
	})
}

// deleteOne makes a RunE that deletes the subject of the first argument.
func (e *Env) deleteOne(request func(*client.Client, context.Context, string) error, done string) func(*cobra.Command, []string) error {
	return e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
		return e.printDeleted(request(api, ctx, args[0]), done)
	})
}

// deletePart makes a RunE that deletes a part, which the second argument names, of the subject of the first.
func (e *Env) deletePart(request func(*client.Client, context.Context, string, string) error, done string) func(*cobra.Command, []string) error {
	return e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
		return e.printDeleted(request(api, ctx, args[0], args[1]), done)
	})
}

// newClient makes a client of the server with a credential.
func (e *Env) newClient(token string) (*client.Client, error) {
	return client.New(client.Config{URL: e.url, Token: token, Version: e.Version, TokenEnds: func(at time.Time) {
		e.tokenEnds.Do(func() {
			e.notef("Your token expires on %s. Create a new one with: holdpoint token create", formatTime(&at))
		})
	}})
}

// completeNames completes the first argument with the names in a list of the API.
func (e *Env) completeNames(list string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 || e.resolveSettings(cmd) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
		defer cancel()
		api, err := e.newClient(e.token)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		text, err := api.Send(ctx, http.MethodGet, "/api/v1/"+list, nil)
		found, err := client.Value(client.Reply[client.List[struct {
			Name string `json:"name"`
		}]](text), err)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []cobra.Completion
		for _, item := range found.Items {
			names = append(names, item.Name)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// bindPage adds the flags of a command that prints one page of a list.
func bindPage(cmd *cobra.Command, limit **int64, cursor *string) {
	*limit = cmd.Flags().Int64("limit", 50, "how many at most, up to 200")
	cmd.Flags().StringVar(cursor, "cursor", "", "the next_cursor of the page before")
}

// usageError is wrong use of a command.
type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }

func misusef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// usage makes errors about arguments usage errors.
func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return &usageError{err}
		}
		return nil
	}
}
