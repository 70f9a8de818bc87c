package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/client"
)

// words say how a conversation stands. Empty: its own client runs it.
func (l *loopView) words() string {
	switch {
	case l == nil:
		return ""
	case l.Stopping:
		return l.Status + ", stopping"
	case l.OpenCalls > 0:
		return l.Status + " for " + strconv.Itoa(l.OpenCalls) + " of its calls"
	}
	return l.Status + inBrackets(l.Code)
}

// pairs are what is known of a conversation that Holdpoint runs.
func (l *loopView) pairs() []string {
	if l == nil {
		return nil
	}
	pairs := []string{
		"State", l.words(), "Entries", strconv.FormatInt(l.LastSeq, 10), "Turns", strconv.Itoa(l.Turns),
		"Tokens", fmt.Sprintf("%d in, %d out", l.InputTokens, l.OutputTokens), "Forked from", value(l.ForkedFrom),
	}
	if l.Cost > 0 {
		pairs = append(pairs, "Cost", strconv.FormatFloat(l.Cost, 'f', 4, 64))
	}
	if len(l.Pending) > 0 {
		pairs = append(pairs, "Messages that wait", strconv.Itoa(len(l.Pending)))
	}
	return pairs
}

func newMessagesCmd(e *Env) *cobra.Command {
	var p page
	cmd := &cobra.Command{
		Use: "messages ID", Short: "List what was said and what happened in a conversation, oldest first", Args: usage(cobra.ExactArgs(1)),
		Long: `List what was said and what happened in a conversation that Holdpoint runs itself, oldest first. "chat" and
"conversations fork" take an entry by its number.`,
		Example: "  holdpoint conversations messages 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11",
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := e.get(cmd.Context(), "conversations/"+client.Segment(args[0])+"/messages", p.query())
			if err != nil {
				return err
			}
			return printList(e, text, []string{"N", "AT", "KIND", "TEXT"}, func(entry entryView) []string {
				return []string{strconv.FormatInt(entry.Seq, 10), moment(&entry.At), entry.Kind, clipped(entry.words(), 200)}
			})
		},
	}
	p.bind(cmd)
	return cmd
}

// words are an entry in one line.
func (entry *entryView) words() string {
	var words []string
	switch {
	case entry.User != nil:
		words = append(words, entry.User.Text)
		for _, f := range entry.User.Files {
			words = append(words, "["+f.Name+"]")
		}
	case entry.Assistant != nil:
		words = append(words, entry.Assistant.Text)
		for _, wish := range entry.Assistant.Calls {
			words = append(words, "["+wish.Name+" "+wish.Arguments+"]")
		}
	case entry.Tools != nil:
		for _, result := range entry.Tools.Results {
			words = append(words, "["+result.Text+"]")
		}
	case entry.Call != nil:
		words = append(words, entry.Call.Status+inBrackets(entry.Call.Code)+": "+entry.Call.Tool+", call "+entry.Call.ID)
	case entry.Notice != nil:
		words = append(words, entry.Notice.Text)
	}
	return strings.Join(words, " ")
}

// newConversationEndCmd is for what needs nothing but the conversation.
func newConversationEndCmd(e *Env, action, short string) *cobra.Command {
	return &cobra.Command{
		Use: action + " ID", Short: short, Args: usage(cobra.ExactArgs(1)),
		Long: short + `. Calls that nobody decided about yet are
cancelled; what was approved is done. Whose conversation it is may, and operators.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := e.post(cmd.Context(), "conversations/"+client.Segment(args[0])+"/"+action, nil)
			if err != nil {
				return err
			}
			return e.printConversation(text)
		},
	}
}

func newConversationForkCmd(e *Env) *cobra.Command {
	var message string
	cmd := &cobra.Command{
		Use: "fork ID N", Short: "Begin another conversation with what was said up to entry N",
		Long: `Begin another conversation with what was said up to entry N, a message or a reply. With --message that takes the
place of the message N, or follows the reply N; without it, a message is answered anew.`,
		Example: `  holdpoint conversations fork 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11 3 --message "In French, please."`,
		Args:    usage(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			seq, err := strconv.ParseInt(args[1], 10, 64)
			if err != nil || seq < 1 {
				return misuse("entry %q: want its number, as \"conversations messages\" shows it", args[1])
			}
			body := map[string]any{"seq": seq}
			if message != "" {
				body["message"] = message
			}
			text, err := e.post(cmd.Context(), "conversations/"+client.Segment(args[0])+"/fork", body)
			if err != nil {
				return err
			}
			return e.printConversation(text)
		},
	}
	cmd.Flags().StringVar(&message, "message", "", "what to say there")
	return cmd
}

// printConversation prints the id and the state of a conversation, with --json all of it.
func (e *Env) printConversation(text []byte) error {
	if e.json {
		return e.printJSON(text)
	}
	c, err := decode[conversationView](text)
	if err != nil {
		return err
	}
	return e.fields("Conversation", c.ID, "Agent", c.Agent, "State", c.Loop.words())
}
