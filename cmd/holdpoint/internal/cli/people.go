package cli

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/client"
)

func newPeopleCmd(e *Env) *cobra.Command {
	return group("people", "People: their roles, teams and sessions, and who is the same as whom",
		newPeopleListCmd(e), newPeopleShowCmd(e), newPeopleGrantCmd(e), newPeopleBlockCmd(e), newPeopleUnblockCmd(e),
		newPeopleSessionsCmd(e), newPeopleEndSessionCmd(e), newPeopleSignOutCmd(e), newPeopleLinkCmd(e), newPeopleUnlinkCmd(e))
}

type personRow struct {
	ID      string  `json:"id"`
	Name    string  `json:"name"`
	Issuer  string  `json:"issuer"`
	Subject string  `json:"subject"`
	Email   *string `json:"email"`
	Link    *struct {
		SameAs personName `json:"same_as"`
	} `json:"link"`
	CreatedAt time.Time `json:"created_at"`

	ClaimedRoles    []string    `json:"claimed_roles"`
	GrantedRoles    []string    `json:"granted_roles"`
	CredentialRoles []string    `json:"credential_roles"`
	ClaimedTeams    []string    `json:"claimed_teams"`
	GrantedTeams    []string    `json:"granted_teams"`
	GrantedAgents   []string    `json:"granted_agents"`
	Alike           bool        `json:"alike"`
	InvitedBy       *personName `json:"invited_by"`
	First           bool        `json:"first"`
	SignedInAt      *time.Time  `json:"signed_in_at"`
	BlockedAt       *time.Time  `json:"blocked_at"`
	Sessions        int         `json:"sessions"`
	Tokens          int         `json:"tokens"`
}

// both are what was claimed and what was granted, without saying anything twice.
func both(claimed, granted []string) string {
	all := slices.Concat(claimed, granted)
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ", ")
}

// verified says on whose word the person is known.
func (p *personRow) verified() string {
	switch {
	case p.InvitedBy != nil:
		return "no: invited by " + p.InvitedBy.Name + " (" + p.InvitedBy.ID + "), and nobody verified who they are"
	case p.First:
		return "no: the first person, by the bootstrap token"
	case p.Issuer == "holdpoint":
		return "no: known to this server only"
	}
	return "by " + p.Issuer
}

// nameNote warns of a name that is taken for another's.
func (p *personRow) nameNote() string {
	if p.Alike {
		return "looks like another person's: compare issuer and subject"
	}
	return ""
}

// same is whom the person is the same as.
func (p *personRow) same() string {
	if p.Link == nil {
		return ""
	}
	return p.Link.SameAs.Name + " (" + p.Link.SameAs.ID + ")"
}

// note is what a reader has to know before believing the name.
func (p *personRow) note() string {
	var notes []string
	if p.Alike {
		notes = append(notes, "name looks like another's")
	}
	if p.InvitedBy != nil {
		notes = append(notes, "invited by "+p.InvitedBy.Name+", not verified")
	}
	if p.First {
		notes = append(notes, "first person")
	}
	return strings.Join(notes, "; ")
}

func newPeopleListCmd(e *Env) *cobra.Command {
	var p page
	var search string
	cmd := &cobra.Command{
		Use: "list", Short: "List people, newest first", Example: "  holdpoint people list --text vera", Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			query := p.query()
			if search != "" {
				query.Set("text", search)
			}
			text, err := e.get(cmd.Context(), "people", query)
			if err != nil {
				return err
			}
			return printList(e, text, []string{"ID", "NAME", "ISSUER", "SUBJECT", "EMAIL", "ROLES", "TEAMS", "SIGNED IN", "BLOCKED", "SAME AS", "NOTE"},
				func(p personRow) []string {
					return []string{
						p.ID, p.Name, p.Issuer, p.Subject, value(p.Email), both(p.ClaimedRoles, p.GrantedRoles), both(p.ClaimedTeams, p.GrantedTeams),
						moment(p.SignedInAt), moment(p.BlockedAt), p.same(), p.note(),
					}
				})
		},
	}
	p.bind(cmd)
	cmd.Flags().StringVar(&search, "text", "", "only people with this in their name, e-mail or subject")
	return cmd
}

func newPeopleLinkCmd(e *Env) *cobra.Command {
	var same string
	cmd := &cobra.Command{
		Use: "link ID --same-as ID", Short: "Declare a person to be the same as another",
		Long: `Declare a person to be the same as another, whose connections to skills they use from then on: for
somebody with two ways to sign in. It gives them the other's accounts at the skills, so be sure.`,
		Example: "  holdpoint people link 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11 --same-as 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f22",
		Args:    usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if same == "" {
				return misuse("say with --same-as who they are")
			}
			text, err := e.post(cmd.Context(), "people/"+client.Segment(args[0])+"/link", map[string]string{"same_as": same})
			if err != nil {
				return err
			}
			if e.json {
				return e.printJSON(text)
			}
			linked, err := decode[personRow](text)
			if err != nil {
				return err
			}
			return write(e.Stdout, cell(linked.Name+" is the same as "+linked.same())+".\n")
		},
	}
	cmd.Flags().StringVar(&same, "same-as", "", "the id of the person they are")
	return cmd
}

func newPeopleUnlinkCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "unlink ID", Short: "Take a link back",
		Example: "  holdpoint people unlink 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11",
		Args:    usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.remove(cmd.Context(), "people/"+client.Segment(args[0])+"/link", "Unlinked.")
		},
	}
}
