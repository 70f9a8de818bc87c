package cli

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/client"
)

func newInvitationCmd(e *Env) *cobra.Command {
	return group("invitation", "Invitations: how people come in",
		newInvitationCreateCmd(e), newInvitationListCmd(e), newInvitationRevokeCmd(e), newInvitationRedeemCmd(e))
}

func newInvitationCreateCmd(e *Env) *cobra.Command {
	var name, issuer, subject, email string
	var roles, agents []string
	var ttl time.Duration
	cmd := &cobra.Command{
		Use: "create --name NAME --role reviewer|operator", Short: "Invite a person and print the link for them, this once",
		Long: `Invite a person and print the link for them, this once. The link works once; the person redeems it in a
browser, or with "holdpoint invitation redeem".

Where identity providers are configured, the invitation is for one person of a provider: name them
with --email or --subject. They sign in there, and get the roles.

Without an identity provider, nobody verifies who opens the link. The person is shown as invited by
you, and decides no calls made on your behalf or by agents whose keys you made. If you invite a person again,
all their other tokens and sessions end.`,
		Example: `  holdpoint invitation create --name rita --role reviewer
  holdpoint invitation create --name "Olga" --email olga@example.com --role operator --role reviewer`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if name == "" || len(roles) == 0 {
				return misuse("name the person with --name, and at least one --role")
			}
			body := map[string]any{"name": name, "roles": roles}
			for field, text := range map[string]string{"issuer": issuer, "subject": subject, "email": email} {
				if text != "" {
					body[field] = text
				}
			}
			if len(agents) > 0 {
				body["agents"] = agents
			}
			if ttl != 0 {
				body["ttl"] = ttl.String()
			}
			text, err := e.post(cmd.Context(), "invitations", body)
			if err != nil {
				return err
			}
			if e.json {
				return e.printJSON(text)
			}
			made, err := decode[struct {
				URL        string        `json:"url"`
				Invitation invitationRow `json:"invitation"`
			}](text)
			if err != nil {
				return err
			}
			e.notef("The link for %s. It works once, until %s, and is not shown again.", cell(made.Invitation.Name), moment(&made.Invitation.ExpiresAt))
			return write(e.Stdout, made.URL+"\n")
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&name, "name", "", "name of the person")
	flags.StringVar(&email, "email", "", "e-mail address that the identity provider has to vouch for")
	flags.StringVar(&subject, "subject", "", "instead: the person's subject at the identity provider")
	flags.StringVar(&issuer, "issuer", "", "the identity provider (default the only one there is)")
	bindRoles(cmd, &roles, "reviewer or operator; may be given twice")
	flags.StringSliceVar(&agents, "agents", nil, `agents that the person may act as; "*" is every one`)
	flags.DurationVar(&ttl, "ttl", 0, "how long the link works, at most 720h (default 72h)")
	return cmd
}

type invitationRow struct {
	ID         string      `json:"id"`
	Name       string      `json:"name"`
	Issuer     *string     `json:"issuer"`
	Subject    *string     `json:"subject"`
	Email      *string     `json:"email"`
	Roles      []string    `json:"roles"`
	InvitedBy  *personName `json:"invited_by"`
	ExpiresAt  time.Time   `json:"expires_at"`
	RedeemedAt *time.Time  `json:"redeemed_at"`
	RedeemedBy *personName `json:"redeemed_by"`
	RevokedAt  *time.Time  `json:"revoked_at"`
}

func newInvitationListCmd(e *Env) *cobra.Command {
	var p page
	var open bool
	cmd := &cobra.Command{
		Use: "list", Short: "List invitations, newest first, without their secrets", Example: "  holdpoint invitation list --open", Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			query := p.query()
			if open {
				query.Set("open", "true")
			}
			text, err := e.get(cmd.Context(), "invitations", query)
			if err != nil {
				return err
			}
			return printList(e, text, []string{"ID", "NAME", "FOR", "ISSUER", "ROLES", "INVITED BY", "ENDS", "REDEEMED", "REVOKED"}, func(i invitationRow) []string {
				return []string{
					i.ID, i.Name, value(i.Subject) + value(i.Email), value(i.Issuer), strings.Join(i.Roles, ", "), i.InvitedBy.short(),
					moment(&i.ExpiresAt), moment(i.RedeemedAt), moment(i.RevokedAt),
				}
			})
		},
	}
	p.bind(cmd)
	cmd.Flags().BoolVar(&open, "open", false, "only those that can be redeemed")
	return cmd
}

func newInvitationRevokeCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "revoke ID", Short: "Revoke an invitation, at once", Args: usage(cobra.ExactArgs(1)),
		Example: "  holdpoint invitation revoke 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11",
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.remove(cmd.Context(), "invitations/"+client.Segment(args[0]), "Revoked.")
		},
	}
}

func newInvitationRedeemCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "redeem LINK", Short: "Redeem your invitation, and print your first token, this once",
		Long: `Redeem your invitation, and print your first token, this once. No other credential is needed. An invitation
for a person of an identity provider is redeemed in the browser.`,
		Example: `  holdpoint invitation redeem 'https://gate.example.com/invitation?key=hpi_...'`,
		Args:    usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			key := args[0]
			if link, err := url.Parse(key); err == nil && link.Query().Get("key") != "" {
				key = link.Query().Get("key")
			}
			guest, err := e.clientWith(key)
			if err != nil {
				return err
			}
			text, err := guest.Post(cmd.Context(), "invitations/redeem", nil)
			if problem, ok := errors.AsType[*client.Problem](err); ok && problem.Status == http.StatusUnauthorized {
				return fmt.Errorf("%s: ask for another invitation", problem.Detail) // the link is the credential, and no setting
			}
			if err != nil {
				return err
			}
			return e.printSecret(text, "Your token. It is not shown again.")
		},
	}
}
