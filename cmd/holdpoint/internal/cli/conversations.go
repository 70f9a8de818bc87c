package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/client"
)

func newConversationsCmd(e *Env) *cobra.Command {
	return newGroup("conversations", "Runs of agents", newConversationsListCmd(e), newMessagesCmd(e), newConversationForkCmd(e),
		newConversationEndCmd(e, "cancel", "Stop the work under way in a conversation; it continues with the next message", (*client.Client).CancelConversation),
		newConversationEndCmd(e, "close", "End a conversation for good", (*client.Client).CloseConversation),
		&cobra.Command{
			Use: "show ID", Short: "Show a conversation with its calls, the latest 200",
			Example: "  holdpoint conversations show 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11",
			RunE: e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
				reply, err := api.GetConversation(ctx, args[0])
				return printReply(e, reply, err, func(c *client.Conversation) error { return e.showConversation(ctx, api, c) })
			}),
		})
}

func newConversationsListCmd(e *Env) *cobra.Command {
	var query client.ListConversationsQuery
	cmd := &cobra.Command{
		Use: "list", Short: "List conversations, newest first",
		Example: "  holdpoint conversations list --agent billing",
		RunE: listPage(e, (*client.Client).ListConversations, &query,
			[]string{"ID", "AGENT", "FOR", "STARTED", "ENDED", "STATE", "LAST CALL", "CALLS"}, func(c *client.Conversation) []string {
				return []string{
					c.ID, c.Agent, value(c.Principal), formatTime(&c.CreatedAt), formatTime(c.EndedAt), formatLoop(c.Loop),
					formatTime(value(c.Calls).LastAt), formatCallCounts(c),
				}
			}),
	}
	cmd.Flags().StringVar(&query.Agent, "agent", "", "only conversations of this agent")
	cmd.Flags().StringVar(&query.Person, "person", "", "only conversations on behalf of this person")
	bindPage(cmd, &query.Limit, &query.Cursor)
	return cmd
}

// formatCallCounts counts the calls of a conversation by status.
func formatCallCounts(c *client.Conversation) string {
	byStatus := value(c.Calls).ByStatus
	var words []string
	for _, status := range slices.Sorted(maps.Keys(byStatus)) {
		words = append(words, count(byStatus[status])+" "+status)
	}
	return strings.Join(words, ", ")
}

// formatLoop is the state of a conversation. For nil, a conversation that its own client runs, it returns "".
func formatLoop(l *client.Loop) string {
	switch {
	case l == nil:
		return ""
	case l.Stopping:
		return l.Status + ", stopping"
	case l.OpenCalls > 0:
		return l.Status + " for " + count(l.OpenCalls) + " of its calls"
	}
	return l.Status + inBrackets(l.Code)
}

func (e *Env) showConversation(ctx context.Context, api *client.Client, c *client.Conversation) error {
	pairs := []string{
		"Conversation", c.ID, "Agent", c.Agent, "On behalf of", value(c.Principal), "Name", value(c.Name), "MCP version", c.ProtocolVersion,
		"Started", formatTime(&c.CreatedAt), "Ended", formatTime(c.EndedAt), "Calls", formatCallCounts(c),
	}
	if l := c.Loop; l != nil {
		pairs = append(pairs, "State", formatLoop(l), "Entries", count(l.LastSeq), "Turns", count(l.Turns),
			"Tokens", fmt.Sprintf("%d in, %d out", l.InputTokens, l.OutputTokens), "Forked from", l.ForkedFrom)
		if l.Cost > 0 {
			pairs = append(pairs, "Cost", strconv.FormatFloat(l.Cost, 'f', -1, 64))
		}
		if len(l.Pending) > 0 {
			pairs = append(pairs, "Messages that wait", strconv.Itoa(len(l.Pending)))
		}
	}
	if len(c.Tools) > 0 {
		pairs = append(pairs, "Tools", strconv.Itoa(len(c.Tools)))
	}
	for _, p := range c.Problems {
		pairs = append(pairs, "Missing", p.Skill+" ("+p.Kind+"): "+p.Error)
	}
	if err := e.printFields(pairs...); err != nil {
		return err
	}
	found, err := client.Value(api.ListCalls(ctx, client.ListCallsQuery{Conversation: c.ID, Agent: c.Agent, Limit: new(int64(200))}))
	if err != nil {
		return err
	}
	rows := make([][]string, 0, len(found.Items))
	for _, one := range slices.Backward(found.Items) {
		rows = append(rows, []string{one.ID, formatTime(&one.CreatedAt), formatOutcome(&one), one.Skill + ": " + one.Tool, clipCell(string(one.Arguments), 50)})
	}
	if err := write(e.Stdout, "\n"); err != nil {
		return err
	}
	return e.printTable([]string{"ID", "MADE", "STATUS", "TOOL", "ARGUMENTS"}, rows)
}

func newMessagesCmd(e *Env) *cobra.Command {
	var query client.ListMessagesQuery
	cmd := &cobra.Command{
		Use: "messages ID", Short: "List the messages and events of a conversation, oldest first",
		Long: `List the messages and events of a conversation that Holdpoint runs itself, oldest first. "chat" and
"conversations fork" refer to an entry by its number.`,
		Example: "  holdpoint conversations messages 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11",
		RunE: e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			reply, err := api.ListMessages(ctx, args[0], query)
			return printList(e, reply, err, []string{"N", "AT", "KIND", "TEXT"}, func(entry *client.ConversationEntry) []string {
				return []string{count(entry.Seq), formatTime(&entry.At), entry.Kind, clipCell(formatEntry(entry), 200)}
			})
		}),
	}
	bindPage(cmd, &query.Limit, &query.Cursor)
	return cmd
}

// formatEntry is an entry of a conversation in one line.
func formatEntry(entry *client.ConversationEntry) string {
	var words []string
	switch {
	case entry.User != nil:
		words = append(words, entry.User.Text)
		for _, f := range entry.User.Files {
			words = append(words, "["+f.Name+"]")
		}
	case entry.Assistant != nil:
		words = append(words, entry.Assistant.Text)
		for _, wanted := range entry.Assistant.Calls {
			words = append(words, "["+wanted.Name+" "+wanted.Arguments+"]")
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

func newConversationEndCmd(e *Env, verb, short string,
	send func(c *client.Client, ctx context.Context, id string) (client.Reply[client.Conversation], error),
) *cobra.Command {
	return &cobra.Command{
		Use: verb + " ID", Short: short,
		Long: short + `. Calls without a decision are
cancelled; approved calls are executed. Its owner may do this, and operators.`,
		RunE: showOne(e, send, e.showConversationState),
	}
}

func newConversationForkCmd(e *Env) *cobra.Command {
	var message string
	cmd := &cobra.Command{
		Use: "fork ID N", Short: "Begin another conversation with the entries up to entry N",
		Long: `Begin another conversation with the entries up to entry N, a message or a reply. --message replaces the
message N, or follows the reply N; without it, a message is answered again.`,
		Example: `  holdpoint conversations fork 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11 3 --message "In French, please."`,
		RunE: e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			seq, err := strconv.ParseInt(args[1], 10, 64)
			if err != nil || seq < 1 {
				return misusef("entry %q: must be its number, as \"conversations messages\" shows it", args[1])
			}
			reply, err := api.ForkConversation(ctx, args[0], client.ForkRequest{Seq: seq, Message: given(message)})
			return printReply(e, reply, err, e.showConversationState)
		}),
	}
	cmd.Flags().StringVar(&message, "message", "", "message to send in the new conversation")
	return cmd
}

func (e *Env) showConversationState(c *client.Conversation) error {
	return e.printFields("Conversation", c.ID, "Agent", c.Agent, "State", formatLoop(c.Loop))
}
