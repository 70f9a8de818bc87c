package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/client"
)

func newCallbackCmd(e *Env) *cobra.Command {
	return newGroup("callback", "Other systems that are notified of an agent's calls, by signed webhooks",
		newCallbackListCmd(e), newCallbackCreateCmd(e), newCallbackRotateCmd(e), newCallbackTestCmd(e), newDeliveriesCmd(e),
		newCallbackSwitchCmd(e, "enable", "Send messages to a callback again", "Enabled.", (*client.Client).EnableCallback),
		newCallbackSwitchCmd(e, "disable", "Send no messages to a callback until it is enabled", "Disabled.", (*client.Client).DisableCallback),
		&cobra.Command{
			Use: "delete AGENT NAME", Short: "Delete a callback and its messages",
			Example: "  holdpoint agent callback delete billing ops",
			RunE:    e.deletePart((*client.Client).DeleteCallback, "Deleted."),
		},
		&cobra.Command{
			Use: "resend AGENT NAME ID", Short: "Send a message again now, with the same id",
			Example: "  holdpoint agent callback resend billing ops 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11",
			RunE: e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
				reply, err := api.ResendDelivery(ctx, args[0], args[1], args[2])
				return printDone(e, reply, err, "It is being sent again.")
			}),
		})
}

func newCallbackListCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "list AGENT", Short: "List an agent's callbacks, without their URLs and secrets",
		Example: "  holdpoint agent callback list billing",
		RunE: e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			reply, err := api.ListCallbacks(ctx, args[0])
			header := []string{"NAME", "HOST", "STATE", "WAITING", "LAST SENT", "EARLIER SECRET UNTIL", "CREATED", "ERROR"}
			return printList(e, reply, err, header, func(c *client.Callback) []string {
				state := c.State
				if value(c.DisabledReason) == "gone" {
					state += " (gone)"
				}
				return []string{
					c.Name, c.Host, state, count(c.Waiting), formatTime(c.SentAt), formatTime(c.EarlierSecretUntil), formatTime(&c.CreatedAt), value(c.Error),
				}
			})
		}),
	}
}

func newCallbackCreateCmd(e *Env) *cobra.Command {
	var address, variable, file string
	cmd := &cobra.Command{
		Use: "create AGENT NAME --url URL | --to-env VARIABLE | --to-file FILE", Short: "Notify another system of an agent's calls",
		Long: `Notify another system when a call of an agent is parked, decided and finished, by webhooks that are
signed as in the Standard Webhooks specification. They contain ids and statuses, and no arguments or
results.

The signing secret is printed once. The URL is stored encrypted and not shown again; if it is
a credential, pass it in a variable or a file.`,
		Example: `  holdpoint agent callback create billing ops --url https://ops.example.com/holdpoint
  holdpoint agent callback create billing ops --to-env OPS_WEBHOOK_URL`,
		RunE: e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			if (address == "") == (variable == "" && file == "") {
				return misusef("give the URL of the other system with one of --url, --to-env and --to-file")
			}
			if address == "" {
				var err error
				if address, err = e.readURL("to", variable, file); err != nil {
					return err
				}
			}
			reply, err := api.CreateCallback(ctx, args[0], client.CallbackRequest{Name: args[1], URL: address})
			return printCallbackSecret(e, reply, err)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&address, "url", "", "URL where the other system accepts webhooks")
	flags.StringVar(&variable, "to-env", "", "environment variable with the URL")
	flags.StringVar(&file, "to-file", "", "file with the URL; - is standard input")
	return cmd
}

func printCallbackSecret(e *Env, reply client.Reply[client.NewCallback], err error) error {
	return printSecret(e, reply, err, "The signing secret. It is not shown again.", func(c *client.NewCallback) string { return c.Secret })
}

func newCallbackRotateCmd(e *Env) *cobra.Command {
	var grace time.Duration
	cmd := &cobra.Command{
		Use: "rotate-secret AGENT NAME", Short: "Give a callback a new secret and print it once",
		Long: `Give a callback a new secret and print it once. During the grace period messages are signed with
the earlier secret too, so that the other system can change over. If the earlier secret leaked,
--grace 0 ends it immediately.`,
		Example: `  holdpoint agent callback rotate-secret billing ops
  holdpoint agent callback rotate-secret billing ops --grace 0`,
		RunE: e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			if grace < 0 || grace%time.Second != 0 {
				return misusef("--grace must be whole seconds, and not negative")
			}
			reply, err := api.RotateCallbackSecret(ctx, args[0], args[1], client.RotationRequest{GraceSeconds: new(int64(grace.Seconds()))})
			return printCallbackSecret(e, reply, err)
		}),
	}
	cmd.Flags().DurationVar(&grace, "grace", 24*time.Hour, "how long the earlier secret signs too, at most 168h")
	return cmd
}

func newCallbackSwitchCmd(e *Env, verb, short, done string,
	send func(c *client.Client, ctx context.Context, agent, callback string) (client.Reply[client.Callback], error),
) *cobra.Command {
	return &cobra.Command{
		Use: verb + " AGENT NAME", Short: short, Example: "  holdpoint agent callback " + verb + " billing ops",
		RunE: e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			reply, err := send(api, ctx, args[0], args[1])
			return printDone(e, reply, err, done)
		}),
	}
}

func newCallbackTestCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "test AGENT NAME", Short: "Send a test message to a callback",
		Long: `Send a message of the type callback.test to a callback, and report whether it was accepted. If not, the
exit code is 1.`,
		Example: "  holdpoint agent callback test billing ops",
		RunE: e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			reply, err := api.TestCallback(ctx, args[0], args[1])
			return printTest(e, reply, err, func(sent *client.Delivery) (string, error) {
				if sent.Error != nil {
					return "", fmt.Errorf("%s %s", args[1], *sent.Error)
				}
				if sent.State != "delivered" {
					return "", errors.New(args[1] + " did not accept the message")
				}
				return args[1] + " accepted the message", nil
			})
		}),
	}
}

func newDeliveriesCmd(e *Env) *cobra.Command {
	var query client.ListDeliveriesQuery
	cmd := &cobra.Command{
		Use: "deliveries AGENT NAME", Short: "List messages to a callback, newest first",
		Long: `List messages to a callback and their deliveries, newest first. With --json, each has the log of its
attempts.`,
		Example: "  holdpoint agent callback deliveries billing ops",
		RunE: e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			reply, err := api.ListDeliveries(ctx, args[0], args[1], query)
			return printList(e, reply, err, []string{"ID", "TYPE", "CALL", "STATUS", "AT", "STATE", "ATTEMPTS", "ERROR"}, func(d *client.Delivery) []string {
				return []string{d.ID, d.Type, d.CallID, value(d.Status), formatTime(&d.At), d.State, count(d.Attempts), value(d.Error)}
			})
		}),
	}
	bindPage(cmd, &query.Limit, &query.Cursor)
	return cmd
}
