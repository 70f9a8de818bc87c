package cli

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/client"
)

func personPath(id string) string { return "people/" + client.Segment(id) }

// printPerson prints one person: as it came with --json, else a line for each field.
func printPerson(e *Env, text json.RawMessage) error {
	if e.json {
		return e.printJSON(text)
	}
	p, err := decode[personRow](text)
	if err != nil {
		return err
	}
	return e.fields("ID", p.ID, "Name", p.Name, "Issuer", p.Issuer, "Subject", p.Subject, "E-mail", value(p.Email),
		"Roles by groups", strings.Join(p.ClaimedRoles, ", "), "Roles granted", strings.Join(p.GrantedRoles, ", "),
		"Roles by tokens and links", strings.Join(p.CredentialRoles, ", "),
		"Teams by groups", strings.Join(p.ClaimedTeams, ", "), "Teams granted", strings.Join(p.GrantedTeams, ", "),
		"Agents granted", strings.Join(p.GrantedAgents, ", "), "Verified", p.verified(), "Name is", p.nameNote(),
		"Signed in", moment(p.SignedInAt), "Blocked", moment(p.BlockedAt), "Sessions", strconv.Itoa(p.Sessions), "Tokens", strconv.Itoa(p.Tokens),
		"Same as", p.same(), "Created", moment(&p.CreatedAt))
}

func newPeopleShowCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show a person, with what they may do and by what", Args: usage(cobra.ExactArgs(1)),
		Example: "  holdpoint people show 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11",
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := e.get(cmd.Context(), personPath(args[0]), nil)
			if err != nil {
				return err
			}
			return printPerson(e, text)
		},
	}
}

// changePerson sends what is to change, and prints what the person is then.
func changePerson(e *Env, cmd *cobra.Command, id string, change map[string]any) error {
	api, err := e.client()
	if err != nil {
		return err
	}
	text, err := api.Patch(cmd.Context(), personPath(id), change)
	if err != nil {
		return err
	}
	return printPerson(e, text)
}

func newPeopleGrantCmd(e *Env) *cobra.Command {
	var roles, teams, agents []string
	cmd := &cobra.Command{
		Use: "grant ID [--role …] [--team …]", Short: "Say which roles and teams a person has besides those of their groups",
		Long: `Say which roles and teams a person has besides those that the groups of their identity provider give them.
What is named replaces what was granted before; an empty value takes all of it. It holds at once, for
everything but personal tokens, which have roles of their own.`,
		Example: `  holdpoint people grant 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11 --role reviewer --team payments
  holdpoint people grant 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11 --role ""`,
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			change := map[string]any{}
			if cmd.Flags().Changed("role") {
				change["granted_roles"] = notEmpty(roles)
			}
			if cmd.Flags().Changed("team") {
				change["granted_teams"] = notEmpty(teams)
			}
			if cmd.Flags().Changed("agents") {
				change["granted_agents"] = notEmpty(agents)
			}
			if len(change) == 0 {
				return misuse("say with --role, --team or --agents what they are to have")
			}
			return changePerson(e, cmd, args[0], change)
		},
	}
	cmd.Flags().StringSliceVar(&roles, "role", nil, `reviewer or operator; may be given twice; "" is none`)
	cmd.Flags().StringSliceVar(&agents, "agents", nil, `agents that they may act as, besides those of their roles; "*" is every one, "" none`)
	cmd.Flags().StringArrayVar(&teams, "team", nil, `a team; may be given twice; "" is none`)
	return cmd
}

// notEmpty is a list without empty words; never null.
func notEmpty(list []string) []string {
	kept := []string{}
	for _, word := range list {
		if word != "" {
			kept = append(kept, word)
		}
	}
	return kept
}

func newPeopleBlockCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "block ID", Short: "Block a person: none of their credentials is valid from now on", Args: usage(cobra.ExactArgs(1)),
		Example: "  holdpoint people block 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11",
		RunE: func(cmd *cobra.Command, args []string) error {
			return changePerson(e, cmd, args[0], map[string]any{"blocked": true})
		},
	}
}

func newPeopleUnblockCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "unblock ID", Short: "Let a blocked person in again", Args: usage(cobra.ExactArgs(1)),
		Example: "  holdpoint people unblock 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11",
		RunE: func(cmd *cobra.Command, args []string) error {
			return changePerson(e, cmd, args[0], map[string]any{"blocked": false})
		},
	}
}

type sessionRow struct {
	ID              string     `json:"id"`
	Method          string     `json:"method"`
	Client          string     `json:"client"`
	CreatedAt       time.Time  `json:"created_at"`
	AuthenticatedAt *time.Time `json:"authenticated_at"`
	ExpiresAt       time.Time  `json:"expires_at"`
}

func newPeopleSessionsCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "sessions ID", Short: "List the browsers that a person is signed in with", Args: usage(cobra.ExactArgs(1)),
		Example: "  holdpoint people sessions 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11",
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := e.get(cmd.Context(), personPath(args[0])+"/sessions", nil)
			if err != nil {
				return err
			}
			return printList(e, text, []string{"ID", "BY", "BROWSER", "SIGNED IN", "PROVED LAST", "ENDS"}, func(s sessionRow) []string {
				return []string{s.ID, s.Method, s.Client, moment(&s.CreatedAt), moment(s.AuthenticatedAt), moment(&s.ExpiresAt)}
			})
		},
	}
}

func newPeopleEndSessionCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "end-session ID SESSION", Short: "End a session of a person, at once", Args: usage(cobra.ExactArgs(2)),
		Example: "  holdpoint people end-session 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f22",
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.remove(cmd.Context(), personPath(args[0])+"/sessions/"+client.Segment(args[1]), "Ended.")
		},
	}
}

func newPeopleSignOutCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "sign-out ID", Short: "End all sessions of a person, at once", Args: usage(cobra.ExactArgs(1)),
		Example: "  holdpoint people sign-out 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11",
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := e.post(cmd.Context(), personPath(args[0])+"/sign-out", nil)
			if err != nil {
				return err
			}
			if e.json {
				return e.printJSON(text)
			}
			ended, err := decode[struct {
				Ended int `json:"ended"`
			}](text)
			if err != nil {
				return err
			}
			return write(e.Stdout, fmt.Sprintf("Ended %d.\n", ended.Ended))
		},
	}
}
