package cli

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/client"
)

func newConversationsCmd(e *Env) *cobra.Command {
	return group("conversations", "Runs of agents", newConversationsListCmd(e), newConversationsShowCmd(e), newMessagesCmd(e),
		newConversationEndCmd(e, "cancel", "Stop what is under way in a conversation; it goes on with the next message"),
		newConversationEndCmd(e, "close", "End a conversation for good"),
		newConversationForkCmd(e))
}

type conversationView struct {
	ID              string     `json:"id"`
	Agent           string     `json:"agent"`
	Principal       *string    `json:"principal"`
	Name            *string    `json:"name"`
	ProtocolVersion string     `json:"protocol_version"`
	CreatedAt       time.Time  `json:"created_at"`
	EndedAt         *time.Time `json:"ended_at"`
	Problems        []struct {
		Skill string `json:"skill"`
		Kind  string `json:"kind"`
		Error string `json:"error"`
	} `json:"problems"`
	Calls struct {
		ByStatus map[string]int `json:"by_status"`
		LastAt   *time.Time     `json:"last_at"`
	} `json:"calls"`
	Loop  *loopView `json:"loop"`
	Tools []struct {
		Name string `json:"name"`
	} `json:"tools"`
}

// counts say how many of its calls stand how.
func (c *conversationView) counts() string {
	var words []string
	for _, status := range slices.Sorted(maps.Keys(c.Calls.ByStatus)) {
		words = append(words, strconv.Itoa(c.Calls.ByStatus[status])+" "+status)
	}
	return strings.Join(words, ", ")
}

func newConversationsListCmd(e *Env) *cobra.Command {
	var p page
	var agent, person string
	cmd := &cobra.Command{
		Use: "list", Short: "List conversations, newest first", Args: usage(cobra.NoArgs),
		Example: "  holdpoint conversations list --agent billing",
		RunE: func(cmd *cobra.Command, _ []string) error {
			query := p.query()
			add(query, map[string]string{"agent": agent, "person": person})
			text, err := e.get(cmd.Context(), "conversations", query)
			if err != nil {
				return err
			}
			return printList(e, text, []string{"ID", "AGENT", "FOR", "STARTED", "ENDED", "STATE", "LAST CALL", "CALLS"}, func(c conversationView) []string {
				return []string{c.ID, c.Agent, value(c.Principal), moment(&c.CreatedAt), moment(c.EndedAt), c.Loop.words(), moment(c.Calls.LastAt), c.counts()}
			})
		},
	}
	cmd.Flags().StringVar(&agent, "agent", "", "only conversations of this agent")
	cmd.Flags().StringVar(&person, "person", "", "only conversations on behalf of this person")
	p.bind(cmd)
	return cmd
}

func newConversationsShowCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show a conversation with its calls, the latest 200", Args: usage(cobra.ExactArgs(1)),
		Example: "  holdpoint conversations show 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11",
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := e.get(cmd.Context(), "conversations/"+client.Segment(args[0]), nil)
			if err != nil {
				return err
			}
			if e.json {
				return e.printJSON(text)
			}
			c, err := decode[conversationView](text)
			if err != nil {
				return err
			}
			return e.showConversation(cmd, &c)
		},
	}
}

func (e *Env) showConversation(cmd *cobra.Command, c *conversationView) error {
	pairs := []string{
		"Conversation", c.ID, "Agent", c.Agent, "On behalf of", value(c.Principal), "Name", value(c.Name), "MCP version", c.ProtocolVersion,
		"Started", moment(&c.CreatedAt), "Ended", moment(c.EndedAt), "Calls", c.counts(),
	}
	pairs = append(pairs, c.Loop.pairs()...)
	if len(c.Tools) > 0 {
		pairs = append(pairs, "Tools", strconv.Itoa(len(c.Tools)))
	}
	for _, p := range c.Problems {
		pairs = append(pairs, "Missing", p.Skill+" ("+p.Kind+"): "+p.Error)
	}
	if err := e.fields(pairs...); err != nil {
		return err
	}
	query := (&page{limit: 200}).query()
	add(query, map[string]string{"conversation": c.ID, "agent": c.Agent})
	text, err := e.get(cmd.Context(), "calls", query)
	if err != nil {
		return err
	}
	found, err := decode[list[callView]](text)
	if err != nil {
		return err
	}
	if err := write(e.Stdout, "\n"); err != nil {
		return err
	}
	rows := make([][]string, 0, len(found.Items))
	for _, one := range slices.Backward(found.Items) {
		rows = append(rows, []string{one.ID, moment(&one.CreatedAt), one.outcome(), one.Skill + ": " + one.Tool, clipped(string(one.Arguments), 50)})
	}
	return e.table([]string{"ID", "MADE", "STATUS", "TOOL", "ARGUMENTS"}, rows)
}
