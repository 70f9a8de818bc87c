package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/client"
)

type chatOptions struct {
	latest       bool
	conversation string
	noWait       bool
}

func newChatCmd(e *Env) *cobra.Command {
	var o chatOptions
	cmd := &cobra.Command{
		Use:   "chat AGENT [MESSAGE]",
		Short: "Converse with an agent that has a model",
		Long: `Converse with an agent that has a model. Holdpoint runs the conversation: it asks the model and makes
its calls, some of which wait for approval. Use the agent's key, or the token of a person who may act
as it.

With MESSAGE, or a message on the standard input if that is no terminal, the command waits for the
answer: through lost connections, restarts of the server and calls that wait for approval. Ctrl-C
stops the waiting, not the conversation.

On a terminal without MESSAGE the chat is interactive. Ctrl-C cancels the work under way and, the
second time, leaves; Ctrl-D leaves. The conversation continues. A line that ends in a backslash is
continued on the next. Commands:

` + chatHelp + `

The model's text goes to the standard output; the progress of its calls goes to the standard error.
With --json the events go to the standard output, a line each: {"event", "id", "data"}.

Exit codes: 0 answered, 1 bad use or no answer (the model failed, a limit was reached, or the work was
cancelled); 130 after Ctrl-C.`,
		Example: `  holdpoint chat billing
  holdpoint chat billing "File the invoice of today."
  holdpoint chat billing --continue "And that of yesterday."`,
		Args: usage(cobra.RangeArgs(1, 2)),
		RunE: e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			message, given := "", len(args) == 2
			if given {
				message = args[1]
			}
			return e.chat(ctx, api, args[0], message, given, o)
		}),
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.latest, "continue", false, "continue the latest conversation that was begun with this credential and has not ended")
	flags.StringVar(&o.conversation, "conversation", "", "continue this conversation")
	flags.BoolVar(&o.noWait, "no-wait", false, "send the message, print the conversation's id, and do not wait")
	cmd.MarkFlagsMutuallyExclusive("continue", "conversation")
	return cmd
}

// chatHelp lists the commands of an interactive chat.
const chatHelp = `  /stop          cancel the work under way
  /close         end the conversation for good, and leave
  /fork N [TEXT] continue in another conversation, from entry N: TEXT replaces the message N, or
                 follows the reply N; the prompt shows the number of the last entry
  /help          show these`

func (e *Env) chat(ctx context.Context, api *client.Client, agent, message string, given bool, o chatOptions) error {
	interactive := !given && e.Terminal
	if o.noWait && interactive {
		return misusef("--no-wait needs a message")
	}
	if !given && !interactive {
		text, err := io.ReadAll(io.LimitReader(e.Stdin, maxMessage+1))
		if err != nil {
			return fmt.Errorf("read message: %w", err)
		}
		message = strings.TrimRight(string(text), "\r\n")
	}
	if !interactive && strings.TrimSpace(message) == "" {
		return misusef("the message is empty")
	}
	c := &chat{Env: e, api: api, agent: agent, interactive: interactive, interrupts: e.Interrupts}
	if c.interrupts == nil {
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, os.Interrupt)
		defer signal.Stop(signals)
		c.interrupts = signals
	}
	if err := c.openConversation(ctx, o); err != nil {
		return err
	}
	if o.noWait {
		reply, err := c.sendMessage(ctx, message)
		if err != nil {
			return err
		}
		if c.json {
			return c.show.printLine("said", 0, json.RawMessage(reply))
		}
		return write(c.Stdout, c.id+"\n")
	}
	return c.runLoop(ctx, message)
}

// maxMessage is above the server's limit for a message, in bytes.
const maxMessage = 1 << 20

// chat is a running chat.
type chat struct {
	*Env
	api         *client.Client
	agent       string
	id          string // of the conversation
	begun       bool   // by this command
	lastSeq     int64
	status      string
	interactive bool
	interrupts  <-chan os.Signal
	show        chatShow

	mine     string // id of the message whose answer is awaited; "": none
	taken    bool   // the message reached the model
	answered bool   // with a reply without calls
	failure  string // why there is no answer
	stopping bool   // a cancel was sent
	closed   bool   // by this command
}

// openConversation finds the conversation, or starts it.
func (c *chat) openConversation(ctx context.Context, o chatOptions) error {
	var reply client.Reply[client.Conversation]
	var err error
	switch {
	case o.conversation != "":
		reply, err = c.api.GetConversation(ctx, o.conversation)
	case o.latest:
		reply, err = c.api.GetLatestConversation(ctx, client.GetLatestConversationQuery{Agent: c.agent})
		if refused, ok := errors.AsType[*client.Problem](err); ok && refused.Status == http.StatusNotFound {
			return fmt.Errorf("there is no conversation with %s to continue: leave --continue out to start one", c.agent)
		}
	default:
		c.begun = true
		reply, err = c.api.CreateConversation(ctx, client.CreateConversationRequest{Agent: &c.agent})
	}
	if err != nil {
		return err
	}
	return c.enterConversation(reply)
}

// enterConversation switches to a conversation.
func (c *chat) enterConversation(reply client.Reply[client.Conversation]) error {
	found, err := reply.Value()
	switch {
	case err != nil:
		return err
	case found.Agent != c.agent:
		return misusef("conversation %s belongs to agent %s", found.ID, found.Agent)
	case found.Loop == nil:
		return misusef("conversation %s is run by the agent's own client", found.ID)
	}
	c.noteProblems(found.Problems)
	c.id, c.lastSeq, c.status = found.ID, found.Loop.LastSeq, found.Loop.Status
	c.show = chatShow{Env: c.Env, agent: c.agent, id: found.ID, api: c.api}
	if c.json {
		return c.show.printLine("conversation", 0, json.RawMessage(reply))
	}
	return nil
}

// sendMessage sends a message, whose answer is waited for from then on.
func (c *chat) sendMessage(ctx context.Context, message string) (client.Reply[client.Said], error) {
	reply, err := c.api.Say(ctx, c.id, message)
	said, err := client.Value(reply, err)
	if err != nil {
		return nil, err
	}
	c.mine, c.taken, c.answered, c.failure = value(said.Message).ID, false, false, ""
	c.show.mine = append(c.show.mine, c.mine)
	if said.Pending {
		c.notef("The message is delivered when the work under way allows it.")
	}
	return reply, nil
}

// readLines reads lines until ctx ends. The channel is closed at the end of the input.
func (c *chat) readLines(ctx context.Context) <-chan string {
	lines := make(chan string)
	go func() {
		defer close(lines)
		scanner := bufio.NewScanner(c.Stdin)
		scanner.Buffer(nil, maxMessage)
		for scanner.Scan() {
			select {
			case lines <- scanner.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	return lines
}
