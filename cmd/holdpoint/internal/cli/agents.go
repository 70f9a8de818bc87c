package cli

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/client"
)

// page are the flags of commands that print a page of a list.
type page struct {
	limit  int
	cursor string
}

func (p *page) bind(cmd *cobra.Command) {
	cmd.Flags().IntVar(&p.limit, "limit", 50, "how many at most, up to 200")
	cmd.Flags().StringVar(&p.cursor, "cursor", "", "the next_cursor of the page before")
}

func (p *page) query() url.Values {
	query := url.Values{"limit": {strconv.Itoa(p.limit)}}
	if p.cursor != "" {
		query.Set("cursor", p.cursor)
	}
	return query
}

// get asks the API for something.
func (e *Env) get(ctx context.Context, path string, query url.Values) (json.RawMessage, error) {
	api, err := e.client()
	if err != nil {
		return nil, err
	}
	return api.Get(ctx, path, query)
}

func (e *Env) post(ctx context.Context, path string, body any) (json.RawMessage, error) {
	api, err := e.client()
	if err != nil {
		return nil, err
	}
	return api.Post(ctx, path, body)
}

// remove deletes something and says so.
func (e *Env) remove(ctx context.Context, path, done string) error {
	api, err := e.client()
	if err != nil {
		return err
	}
	if err := api.Delete(ctx, path); err != nil {
		return err
	}
	if e.json {
		return e.printJSON(json.RawMessage("{}"))
	}
	return write(e.Stdout, done+"\n")
}

// completeNames offers the names that a list of the API holds.
func (e *Env) completeNames(path string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 || e.resolveSettings(cmd) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
		defer cancel()
		text, err := e.get(ctx, path, url.Values{"limit": {"200"}})
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found, err := decode[list[struct {
			Name string `json:"name"`
		}]](text)
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

func newAgentCmd(e *Env) *cobra.Command {
	return group("agent", "Agents, their skills and keys",
		newAgentListCmd(e), newAgentShowCmd(e), newAgentToolsCmd(e), newAgentCreateCmd(e), newAgentEditCmd(e), newAgentDeleteCmd(e), newAgentAssignCmd(e), newAgentUnassignCmd(e),
		group("key", "Keys of agents", newKeyCreateCmd(e), newKeyListCmd(e), newKeyRevokeCmd(e)), newCallbackCmd(e))
}

type agentRow struct {
	Name       string  `json:"name"`
	WaitBudget string  `json:"wait_budget"`
	Team       *string `json:"team"`
	EscalateTo *string `json:"escalate_to"`
	Skills     []struct {
		Skill string   `json:"skill"`
		Tools []string `json:"tools"`
	} `json:"skills"`
	CreatedAt time.Time `json:"created_at"`
}

func newAgentListCmd(e *Env) *cobra.Command {
	var p page
	cmd := &cobra.Command{
		Use: "list", Short: "List agents", Example: "  holdpoint agent list", Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := e.get(cmd.Context(), "agents", p.query())
			if err != nil {
				return err
			}
			return printList(e, text, []string{"NAME", "SKILLS", "TEAM", "WAIT", "CREATED"}, func(a agentRow) []string {
				var skills []string
				for _, s := range a.Skills {
					if s.Tools != nil {
						s.Skill += " (" + strconv.Itoa(len(s.Tools)) + " tools)"
					}
					skills = append(skills, s.Skill)
				}
				return []string{
					a.Name, strings.Join(skills, ", "), attention(a.Team, a.EscalateTo), a.WaitBudget, moment(&a.CreatedAt),
				}
			})
		},
	}
	p.bind(cmd)
	return cmd
}

func newKeyCreateCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "create AGENT", Short: "Make a key for an agent and print it, this once",
		Example: "  holdpoint agent key create billing",
		Args:    usage(cobra.ExactArgs(1)), ValidArgsFunction: e.completeNames("agents"),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := e.post(cmd.Context(), "agents/"+client.Segment(args[0])+"/keys", nil)
			if err != nil {
				return err
			}
			return e.printSecret(text, "The agent's key. It is not shown again.")
		},
	}
}

// printSecret prints a new credential: on the standard output nothing else.
func (e *Env) printSecret(text json.RawMessage, note string) error {
	if e.json {
		return e.printJSON(text)
	}
	made, err := decode[struct {
		Key string `json:"key"`
	}](text)
	if err != nil {
		return err
	}
	e.notef("%s", note)
	return write(e.Stdout, made.Key+"\n")
}

type keyRow struct {
	ID        string     `json:"id"`
	Hint      string     `json:"hint"`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at"`
	RevokedAt *time.Time `json:"revoked_at"`

	CreatedBy *personName `json:"created_by"`
}

func newKeyListCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "list AGENT", Short: "List an agent's keys, without their secrets",
		Example: "  holdpoint agent key list billing",
		Args:    usage(cobra.ExactArgs(1)), ValidArgsFunction: e.completeNames("agents"),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := e.get(cmd.Context(), "agents/"+client.Segment(args[0])+"/keys", nil)
			if err != nil {
				return err
			}
			return printList(e, text, []string{"ID", "KEY", "CREATED", "CREATED BY", "ENDS", "REVOKED"}, func(k keyRow) []string {
				return []string{k.ID, k.Hint + "…", moment(&k.CreatedAt), k.CreatedBy.short(), moment(k.ExpiresAt), moment(k.RevokedAt)}
			})
		},
	}
}

func newKeyRevokeCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "revoke AGENT ID", Short: "Revoke a key of an agent, at once",
		Example: "  holdpoint agent key revoke billing 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11",
		Args:    usage(cobra.ExactArgs(2)), ValidArgsFunction: e.completeNames("agents"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.remove(cmd.Context(), "agents/"+client.Segment(args[0])+"/keys/"+client.Segment(args[1]), "Revoked.")
		},
	}
}
