package cli

import (
	"context"
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
	return newGroup("invitation", "Invitations of people",
		newInvitationCreateCmd(e), newInvitationListCmd(e), newInvitationRedeemCmd(e),
		&cobra.Command{
			Use: "revoke ID", Short: "Revoke an invitation immediately",
			Example: "  holdpoint invitation revoke 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11",
			RunE:    e.deleteOne((*client.Client).RevokeInvitation, "Revoked."),
		})
}

func newInvitationCreateCmd(e *Env) *cobra.Command {
	var issuer, subject, email string
	var body client.InvitationRequest
	var ttl time.Duration
	var limit reviewLimit
	cmd := &cobra.Command{
		Use: "create --name NAME --role reviewer|operator", Short: "Invite a person and print the link once",
		Long: `Invite a person and print the link once. The link works once; the person redeems it in a
browser, or with "holdpoint invitation redeem".

Where identity providers are configured, the invitation is for one person of a provider: name them
with --email or --subject. They sign in there, and get the roles.

Without an identity provider, the person who opens the link is not verified. The person is shown as invited by
you, and decides no calls made on your behalf or by agents whose keys you made. If you invite a person again,
all their other tokens and sessions end.`,
		Example: `  holdpoint invitation create --name rita --role reviewer
  holdpoint invitation create --name "Olga" --email olga@example.com --role operator --role reviewer`,
	}
	cmd.RunE = e.withClient(func(ctx context.Context, api *client.Client, _ []string) error {
		if body.Name == "" || len(body.Roles) == 0 {
			return misusef("name the person with --name, and at least one --role")
		}
		body.Issuer, body.Subject, body.Email, body.Agents = given(issuer), given(subject), given(email), givenList(body.Agents)
		if ttl != 0 {
			body.TTL = new(ttl.String())
		}
		body.ReviewLimit = limit.request(cmd)
		reply, err := api.CreateInvitation(ctx, body)
		return printReply(e, reply, err, func(made *client.NewInvitation) error {
			i := value(made.Invitation)
			if i.Waits {
				e.notef("The invitation works once a second operator has approved it: holdpoint changes list --pending")
			}
			e.notef("The link for %s. It works once, until %s, and is not shown again.", escapeCell(i.Name), formatTime(&i.ExpiresAt))
			return write(e.Stdout, made.URL+"\n")
		})
	})
	limit.bind(cmd)
	flags := cmd.Flags()
	flags.StringVar(&body.Name, "name", "", "name of the person")
	flags.StringVar(&email, "email", "", "e-mail address that the identity provider has to verify")
	flags.StringVar(&subject, "subject", "", "instead: the person's subject at the identity provider")
	flags.StringVar(&issuer, "issuer", "", "the identity provider (default the only one there is)")
	bindRoles(cmd, &body.Roles, "reviewer or operator; may be given twice")
	flags.StringSliceVar(&body.Agents, "agents", nil, `agents that the person may act as; "*" is every one`)
	flags.DurationVar(&ttl, "ttl", 0, "how long the link works, at most 720h (default 72h)")
	return cmd
}

func newInvitationListCmd(e *Env) *cobra.Command {
	var query client.ListInvitationsQuery
	cmd := &cobra.Command{
		Use: "list", Short: "List invitations, newest first, without their secrets", Example: "  holdpoint invitation list --open",
		RunE: listPage(e, (*client.Client).ListInvitations, &query,
			[]string{"ID", "NAME", "FOR", "ISSUER", "ROLES", "INVITED BY", "ENDS", "REDEEMED", "REVOKED"}, func(i *client.Invitation) []string {
				return []string{
					i.ID, i.Name, value(i.Subject) + value(i.Email), value(i.Issuer), strings.Join(i.Roles, ", "), shortPerson(i.InvitedBy),
					formatTime(&i.ExpiresAt), formatTime(i.RedeemedAt), formatTime(i.RevokedAt),
				}
			}),
	}
	bindPage(cmd, &query.Limit, &query.Cursor)
	cmd.Flags().BoolVar(&query.Open, "open", false, "only those that can be redeemed")
	return cmd
}

func newInvitationRedeemCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "redeem LINK", Short: "Redeem your invitation and print your first token once",
		Long: `Redeem your invitation and print your first token once. No other credential is needed. An invitation
for a person of an identity provider is redeemed in the browser.`,
		Example: `  holdpoint invitation redeem 'https://gate.example.com/invitation?key=hpi_...'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			key := args[0]
			if link, err := url.Parse(key); err == nil && link.Query().Get("key") != "" {
				key = link.Query().Get("key")
			}
			guest, err := e.newClient(key)
			if err != nil {
				return err
			}
			reply, err := guest.RedeemInvitation(cmd.Context())
			if problem, ok := errors.AsType[*client.Problem](err); ok && problem.Status == http.StatusUnauthorized {
				return fmt.Errorf("%s: ask for another invitation", problem.Detail) // the link is the credential, and no setting
			}
			return printSecret(e, reply, err, "Your token. It is not shown again.", func(t *client.NewToken) string { return t.Key })
		},
	}
}
