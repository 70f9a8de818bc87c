package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/client"
)

func newCallCmd(e *Env) *cobra.Command {
	var arguments, file, key string
	cmd := &cobra.Command{
		Use:   "call AGENT TOOL",
		Short: "Call a tool as an agent, and wait until the call ends",
		Long: `Call a tool as an agent, over its MCP endpoint, and wait until the call ends: through a missing
connection of its skill, an approval, lost connections and restarts of the server. Use the agent's
key, or the token of a person who may act as it. The arguments are sent byte for byte.

Ctrl-C stops the waiting, not the call. The result's text goes to the standard output, with --json
the call as the API shows it; progress goes to the standard error.

Exit codes: 0 success, 1 bad use, 10 tool error, 11 JSON-RPC error, 12 transport, 13 protocol,
14 session invalid, 20 rejected, 21 expired, 22 cancelled, 23 denied, 24 outcome unknown,
25 invalid arguments; 130 after Ctrl-C.`,
		Example: `  holdpoint call billing files__write_file --args '{"path":"/srv/shared/a.txt","content":"hello"}'
  holdpoint call billing everything__echo --args-file - --json < arguments.json`,
		RunE: e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
			defer stop()
			text, err := e.readArguments(arguments, file)
			if err != nil {
				return err
			}
			outcome, err := api.Call(ctx, client.ToolCall{Agent: args[0], Tool: args[1], Arguments: text, IdempotencyKey: key, OnProgress: e.noteProgress})
			if err != nil {
				return e.explainUnended(ctx, args[0], err)
			}
			if outcome.Fault != nil && outcome.CallID == "" { // such as a tool of a skill that was never reached
				if found, err := api.Tools(ctx, args[0]); err == nil {
					e.noteProblems(found.Problems)
				}
			}
			return e.printOutcome(ctx, api, outcome)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&arguments, "args", "", "the arguments: a JSON object (default {})")
	flags.StringVar(&file, "args-file", "", `file with the arguments; "-" is the standard input`)
	flags.StringVar(&key, "idempotency-key", "", "with the same key and arguments it is the same call, with another key another call")
	cmd.MarkFlagsMutuallyExclusive("args", "args-file")
	return cmd
}

// readArguments returns the arguments of a call, from a file if one is named. By default they are {}.
func (e *Env) readArguments(arguments, file string) (json.RawMessage, error) {
	text := []byte(cmp.Or(arguments, "{}"))
	if file != "" {
		var err error
		if text, err = e.readFile(file); err != nil {
			return nil, err
		}
	}
	if !json.Valid(text) {
		return nil, misusef("the arguments are not JSON")
	}
	return text, nil
}

// noteProgress notes the progress of a call.
func (e *Env) noteProgress(n client.Progress) {
	switch {
	case n.Lost != nil && n.CallID != "":
		e.notef("%v; call %s continues, trying again", n.Lost, n.CallID)
	case n.Lost != nil:
		e.notef("%v; trying again", n.Lost)
	case n.Attached:
		e.notef("this is the call %s, which was made before", n.CallID)
	case n.Status == "parked":
		e.notef("waiting for approval: call %s (deadline %s)", n.CallID, n.Deadline.UTC().Format(time.RFC3339))
	case n.Status == "approved" || n.Status == "executing":
		e.notef("executing: call %s", n.CallID)
	case n.Status == "needs_connection":
		e.notef("waiting for a connection of the skill: call %s (deadline %s)", n.CallID, n.Deadline.UTC().Format(time.RFC3339))
		if n.Reason != "" {
			e.notef("  %s; see holdpoint connections list", n.Reason)
		}
	}
}

// explainUnended says why the waiting ended before the call did, and how to come back.
func (e *Env) explainUnended(ctx context.Context, agent string, err error) error {
	code := ExitFailure
	if ctx.Err() != nil {
		code = ExitInterrupted
	}
	if stopped, ok := errors.AsType[*client.StoppedError](err); ok {
		if code == ExitInterrupted {
			err = fmt.Errorf("stopped waiting; call %s continues", stopped.CallID)
		}
		return &ExitError{Code: code, Err: fmt.Errorf("%w\n  To come back, repeat the command if the call waits for approval or for a connection, or:\n"+
			"  holdpoint call %s holdpoint_await --args '{\"call_id\":\"%s\"}'\n  holdpoint calls show %s",
			err, agent, stopped.CallID, stopped.CallID)}
	}
	if errors.Is(err, client.ErrAmbiguous) {
		err = fmt.Errorf("%w\n  Look before you repeat it: holdpoint calls list --agent %s", err, agent)
	}
	return &ExitError{Code: code, Err: err}
}

// printOutcome prints a call's outcome, and makes it the exit code.
func (e *Env) printOutcome(ctx context.Context, api *client.Client, o client.Outcome) error {
	code := exitCode(o)
	if o.Status == "" {
		code = refusedCode(o)
	}
	var printed error
	switch {
	case e.json && o.CallID != "":
		reply, err := api.GetCall(ctx, o.CallID)
		if err == nil {
			err = e.printJSON(reply)
		}
		printed = err
	case o.Fault == nil:
		printed = write(e.Stdout, formatResult(o.Result))
	}
	if printed != nil {
		e.printError(printed)
		if code == ExitOK {
			code = ExitFailure
		}
	}
	var said error
	switch {
	case o.Fault != nil:
		said = o.Fault
	case o.Status != "" && o.Status != "succeeded" && o.Failure != "":
		said = fmt.Errorf("the call %s failed (%s)", o.CallID, o.Failure)
	case o.Status != "" && o.Status != "succeeded":
		said = fmt.Errorf("the call %s is %s", o.CallID, o.Status)
	}
	if code == ExitOK {
		return nil
	}
	return &ExitError{Code: code, Err: said}
}

// refusedCode is the exit code for a request that was refused before it became a call.
func refusedCode(o client.Outcome) int {
	if o.Fault == nil {
		if o.Code == "invalid_arguments" {
			return ExitInvalidArguments
		}
		return ExitFailure
	}
	var data struct {
		Pointer string `json:"pointer"`
	}
	_ = json.Unmarshal(o.Fault.Data, &data) // without data there is no pointer
	const arguments = "/params/arguments"
	if strings.HasPrefix(data.Pointer, arguments) || strings.HasPrefix(o.Fault.Message, arguments) {
		return ExitInvalidArguments
	}
	return ExitFailure
}

// formatResult shows a result: its texts, a line for other content, or its structured content if there is nothing else.
func formatResult(result json.RawMessage) string {
	var r struct {
		Content []struct {
			Type     string `json:"type"`
			Text     string `json:"text"`
			Data     string `json:"data"`
			MimeType string `json:"mimeType"`
			URI      string `json:"uri"`
			Resource struct {
				URI  string  `json:"uri"`
				Text *string `json:"text"`
				Blob string  `json:"blob"`
			} `json:"resource"`
		} `json:"content"`
		Structured json.RawMessage `json:"structuredContent"`
	}
	if json.Unmarshal(result, &r) != nil {
		return ""
	}
	var b strings.Builder
	for _, c := range r.Content {
		switch {
		case c.Type == "text":
			b.WriteString(c.Text)
		case c.Type == "resource" && c.Resource.Text != nil:
			b.WriteString(*c.Resource.Text)
		case c.Type == "resource":
			fmt.Fprintf(&b, "[resource %s, %d bytes in base64]", c.Resource.URI, len(c.Resource.Blob))
		case c.Type == "resource_link":
			fmt.Fprintf(&b, "[link %s]", c.URI)
		default:
			fmt.Fprintf(&b, "[%s %s, %d bytes in base64]", c.Type, c.MimeType, len(c.Data))
		}
		b.WriteString("\n")
	}
	if len(r.Content) == 0 && len(r.Structured) > 0 {
		b.WriteString(prettyJSON(r.Structured) + "\n")
	}
	return Visible(b.String())
}
