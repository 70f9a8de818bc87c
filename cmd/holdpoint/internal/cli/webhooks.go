package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/client"
)

func newWebhooksCmd(e *Env) *cobra.Command {
	return newGroup("webhooks", "Chats that are notified of calls that wait for a decision",
		newWebhooksListCmd(e), newWebhooksCreateCmd(e), newWebhooksTestCmd(e),
		&cobra.Command{
			Use: "delete NAME", Short: "Delete a webhook", Example: "  holdpoint webhooks delete on-call",
			ValidArgsFunction: e.completeNames("webhooks?limit=200"),
			RunE:              e.deleteOne((*client.Client).DeleteWebhook, "Deleted."),
		})
}

func newWebhooksListCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List webhooks by name, without their URLs", Example: "  holdpoint webhooks list",
		RunE: e.withClient(func(ctx context.Context, api *client.Client, _ []string) error {
			reply, err := api.ListWebhooks(ctx)
			return printList(e, reply, err, []string{"NAME", "TEAM", "HOST", "STATE", "LAST SENT", "CREATED", "ERROR"}, func(w *client.Webhook) []string {
				team := "(all)"
				if w.Team != nil {
					team = *w.Team
				}
				return []string{w.Name, team, w.Host, w.State, formatTime(w.SentAt), formatTime(&w.CreatedAt), value(w.Error)}
			})
		}),
	}
}

func newWebhooksCreateCmd(e *Env) *cobra.Command {
	var variable, file, team string
	cmd := &cobra.Command{
		Use: "create NAME --to-env VARIABLE | --to-file FILE", Short: "Notify a chat of calls that wait",
		Long: `Notify a chat of calls that wait for a decision, by an incoming webhook of Slack or of a chat that is
compatible with it. Messages name agent, skill and tool, link to the dashboard, and contain no
arguments.

The webhook's URL is a credential: it allows anyone to write to the chat. It is read from a variable
or a file, sent once, stored encrypted and not shown again.`,
		Example: `  holdpoint webhooks create on-call --to-env SLACK_WEBHOOK_URL
  holdpoint webhooks create finance --to-file - --team finance < url.txt`,
		RunE: e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			address, err := e.readURL("to", variable, file)
			if err != nil {
				return err
			}
			reply, err := api.CreateWebhook(ctx, client.WebhookRequest{Name: args[0], URL: address, Team: given(team)})
			return printDone(e, reply, err, "Created. Try it: holdpoint webhooks test "+args[0])
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&variable, "to-env", "", "environment variable with the URL")
	flags.StringVar(&file, "to-file", "", "file with the URL; - is standard input")
	flags.StringVar(&team, "team", "", "only calls of this team")
	return cmd
}

// readURL reads a secret URL from a variable or a file, which flags name.
func (e *Env) readURL(flag, variable, file string) (string, error) {
	switch {
	case (variable == "") == (file == ""):
		return "", misusef("give the URL with one of --%[1]s-env and --%[1]s-file", flag)
	case variable != "":
		return e.readVariable(variable)
	}
	return e.readSecretFile(file)
}

func newWebhooksTestCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "test NAME", Short: "Send a test message to a chat",
		Long:    `Send a test message to a chat, and report whether the chat accepted it. If not, the exit code is 1.`,
		Example: "  holdpoint webhooks test on-call", ValidArgsFunction: e.completeNames("webhooks?limit=200"),
		RunE: e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			reply, err := api.TestWebhook(ctx, args[0])
			return printTest(e, reply, err, func(w *client.Webhook) (string, error) {
				if w.Error != nil {
					return "", fmt.Errorf("%s %s", w.Host, *w.Error)
				}
				return w.Host + " accepted the message", nil
			})
		}),
	}
}

// printTest prints the result of a test message. It takes the results of a request.
func printTest[T any](e *Env, reply client.Reply[T], err error, judge func(*T) (string, error)) error {
	tested, err := client.Value(reply, err)
	if err != nil {
		return err
	}
	if e.json {
		if err := e.printJSON(reply); err != nil {
			return err
		}
	}
	done, err := judge(&tested)
	if err != nil || e.json {
		return err
	}
	return write(e.Stdout, escapeCell(done)+".\n")
}
