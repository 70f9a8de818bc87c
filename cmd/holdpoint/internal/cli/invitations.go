package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/client"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/migrations"
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

// newInviteCmd makes a link for the first person, without a server and without a credential but that of the database.
func newInviteCmd(e *Env) *cobra.Command {
	var d database
	var first, separate bool
	var publicURL string
	cmd := &cobra.Command{
		Use: "invite --first", Short: "Print a sign-in link for the first person",
		Long: `Print a link that signs the first person in, as operator and reviewer. It works once, for 10 minutes.

This needs the data directory, or DATABASE_URL, instead of a token. It is refused once anyone has signed in
or has a token: people then invite others with "holdpoint invitation create".`,
		Example: "  holdpoint invite --first --public-url https://gate.example.com",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !first {
				return misusef(`give --first for the first person; invite others with "holdpoint invitation create"`)
			}
			if err := d.fillDefaults(e); err != nil {
				return err
			}
			if publicURL == "" {
				publicURL = e.url
			}
			return e.inviteFirst(cmd.Context(), d, publicURL, separate)
		},
	}
	d.bindFlags(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&first, "first", false, "for the first person")
	flags.StringVar(&publicURL, "public-url", "", "where people reach the server (default --url)")
	flags.BoolVar(&separate, "separate-roles", false, "make the person an operator only, as on a server with this setting")
	notSettings(cmd, "first")
	return ServerSettings(cmd)
}

func (e *Env) inviteFirst(ctx context.Context, d database, publicURL string, separate bool) (err error) {
	config := d.postgresConfig(e)
	if config.DatabaseURL == "" && !fileExists(filepath.Join(d.dataDir, "postgres")) { // opening it would make one
		return fmt.Errorf("the data directory %s has no database: give the server's --data-dir, or set its DATABASE_URL", d.dataDir)
	}
	db, err := postgres.Open(ctx, config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeDatabase(ctx, db)) }()
	if pending, err := postgres.Pending(ctx, db, migrations.FS); err != nil || pending > 0 {
		return errors.Join(err, errors.New("the database is not set up: start holdpoint serve, or run holdpoint migrate, first"))
	}
	people, err := identity.New(identity.Config{Pool: db.Pool(), SeparateRoles: separate, Logger: slog.New(slog.DiscardHandler), Now: e.Now})
	if err != nil {
		return err
	}
	defer people.Close()
	credential, err := people.CreateFirstLink(ctx)
	if errors.Is(err, identity.ErrNotFirst) {
		return errors.New(`someone has signed in or has a token already: an operator invites others with "holdpoint invitation create"`)
	}
	if err != nil {
		return err
	}
	e.notef("The link signs you in once, within %s.", identity.FirstLinkTTL)
	return write(e.Stdout, SignInURL(publicURL, credential)+"\n")
}

// SignInURL returns the link of a sign-in credential.
func SignInURL(publicURL, credential string) string {
	return strings.TrimSuffix(publicURL, "/") + "/sign-in?token=" + url.QueryEscape(credential)
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
	limit.bindFlags(cmd)
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
