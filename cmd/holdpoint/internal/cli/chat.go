package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
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
its calls, which wait for people where they have to. The credential is the agent's key, or the token
of a person who may act as it.

With MESSAGE, or a message on the standard input where that is no terminal, the answer is waited for:
over lost connections, restarts of the server and calls that wait for approval. Ctrl-C stops the waiting,
not the conversation. On a terminal without MESSAGE it goes to and fro; Ctrl-C cancels what is under way and, the second
time, leaves; Ctrl-D leaves, and the conversation goes on. A line that ends in a backslash is
continued on the next. Commands:

` + chatHelp + `

The model's text goes to the standard output; what its calls wait for, and what became of them, to the standard
error. With --json the events go to the standard output, a line each: {"event", "id", "data"}.

Exit codes: 0 answered, 1 bad use or no answer (the model failed, a limit was reached, somebody cancelled);
130 after Ctrl-C.`,
		Example: `  holdpoint chat billing
  holdpoint chat billing "File the invoice of today."
  holdpoint chat billing --continue "And that of yesterday."`,
		Args: usage(cobra.RangeArgs(1, 2)), ValidArgsFunction: e.completeNames("agents"),
		RunE: func(cmd *cobra.Command, args []string) error {
			message, given := "", len(args) == 2
			if given {
				message = args[1]
			}
			return e.chat(cmd.Context(), args[0], message, given, o)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.latest, "continue", false, "go on with the latest conversation that was begun with this credential and has not ended")
	flags.StringVar(&o.conversation, "conversation", "", "go on with this conversation")
	flags.BoolVar(&o.noWait, "no-wait", false, "say the message, print the conversation's id, and wait for nothing")
	cmd.MarkFlagsMutuallyExclusive("continue", "conversation")
	return cmd
}

// chatHelp is what can be typed besides messages.
const chatHelp = `  /stop          cancel what is under way
  /close         end the conversation for good, and leave
  /fork N [TEXT] go on in another conversation, from entry N: TEXT takes the place of the message N, or
                 follows the reply N; the number before the prompt is that of the last entry
  /help          show these`

func (e *Env) chat(ctx context.Context, agent, message string, given bool, o chatOptions) error {
	interactive := !given && e.Terminal
	if o.noWait && interactive {
		return misuse("--no-wait needs a message")
	}
	if !given && !interactive {
		text, err := io.ReadAll(io.LimitReader(e.Stdin, maxMessage+1))
		if err != nil {
			return fmt.Errorf("read message: %w", err)
		}
		message = strings.TrimRight(string(text), "\r\n")
	}
	if !interactive && strings.TrimSpace(message) == "" {
		return misuse("the message is empty")
	}
	api, err := e.client()
	if err != nil {
		return err
	}
	c := &chat{Env: e, api: api, agent: agent, interactive: interactive, interrupts: e.Interrupts}
	if c.interrupts == nil {
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, os.Interrupt)
		defer signal.Stop(signals)
		c.interrupts = signals
	}
	if err := c.open(ctx, o); err != nil {
		return err
	}
	if o.noWait {
		return c.sayOnly(ctx, message)
	}
	return c.run(ctx, message)
}

// maxMessage is more than a message may have, in bytes.
const maxMessage = 1 << 20

// chat is one at work.
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

	mine     string // the message that is to be answered; empty: none
	taken    bool   // the model is told of it
	answered bool   // with a reply that wants no calls
	failure  string // why there is no answer
	stopping bool   // it was asked to cancel
	closed   bool   // by this command
}

// talkView is what matters here of the API's conversation.
type talkView struct {
	ID       string `json:"id"`
	Agent    string `json:"agent"`
	Problems []struct {
		Skill string `json:"skill"`
		Kind  string `json:"kind"`
		Error string `json:"error"`
	} `json:"problems"`
	Loop *loopView `json:"loop"`
}

// open finds the conversation, or starts it.
func (c *chat) open(ctx context.Context, o chatOptions) error {
	var text json.RawMessage
	var err error
	switch {
	case o.conversation != "":
		text, err = c.api.Get(ctx, "conversations/"+client.Segment(o.conversation), nil)
	case o.latest:
		text, err = c.api.Get(ctx, "conversations/latest", url.Values{"agent": {c.agent}})
		if refused, ok := errors.AsType[*client.Problem](err); ok && refused.Status == 404 {
			return fmt.Errorf("there is no conversation with %s to go on with: leave --continue out to start one", c.agent)
		}
	default:
		c.begun = true
		text, err = c.api.Post(ctx, "conversations", map[string]string{"agent": c.agent})
	}
	if err != nil {
		return err
	}
	return c.enter(text)
}

// enter makes a conversation the one that is talked in.
func (c *chat) enter(text json.RawMessage) error {
	view, err := decode[talkView](text)
	switch {
	case err != nil:
		return err
	case view.Agent != c.agent:
		return misuse("conversation %s is one of the agent %s", view.ID, view.Agent)
	case view.Loop == nil:
		return misuse("conversation %s is run by the agent's own client", view.ID)
	}
	for _, p := range view.Problems {
		c.notef("The tools of %s are missing (%s): %s", p.Skill, p.Kind, p.Error)
	}
	c.id, c.lastSeq, c.status = view.ID, view.Loop.LastSeq, view.Loop.Status
	c.show = chatShow{Env: c.Env, agent: c.agent, id: view.ID, api: c.api}
	if c.json {
		return c.show.line("conversation", 0, text)
	}
	return nil
}

type saidView struct {
	Message struct {
		ID string `json:"id"`
	} `json:"message"`
	Pending bool `json:"pending"`
}

// say says something, which is to be answered from then on.
func (c *chat) say(ctx context.Context, message string) (json.RawMessage, error) {
	text, err := c.api.Say(ctx, c.id, message)
	if err != nil {
		return nil, err
	}
	said, err := decode[saidView](text)
	if err != nil {
		return nil, err
	}
	c.mine, c.taken, c.answered, c.failure = said.Message.ID, false, false, ""
	c.show.mine = append(c.show.mine, c.mine)
	if said.Pending {
		c.notef("It is told when what is under way allows it.")
	}
	return text, nil
}

func (c *chat) sayOnly(ctx context.Context, message string) error {
	text, err := c.say(ctx, message)
	if err != nil {
		return err
	}
	if c.json {
		return c.show.line("said", 0, text)
	}
	return write(c.Stdout, c.id+"\n")
}

// lines reads lines until ctx ends. The channel is closed at the end of the input.
func (c *chat) lines(ctx context.Context) <-chan string {
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
