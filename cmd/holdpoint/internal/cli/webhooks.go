package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/client"
)

func newWebhooksCmd(e *Env) *cobra.Command {
	return group("webhooks", "Chats that are told of calls that wait for a decision",
		newWebhooksListCmd(e), newWebhooksCreateCmd(e), newWebhooksDeleteCmd(e), newWebhooksTestCmd(e))
}

type webhookRow struct {
	Name      string     `json:"name"`
	Team      *string    `json:"team"`
	Host      string     `json:"host"`
	State     string     `json:"state"`
	Error     *string    `json:"error"`
	SentAt    *time.Time `json:"sent_at"`
	CreatedAt time.Time  `json:"created_at"`
}

func (w *webhookRow) hears() string {
	if w.Team == nil {
		return "(all)"
	}
	return *w.Team
}

func newWebhooksListCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List webhooks by name, without their URLs", Example: "  holdpoint webhooks list", Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := e.get(cmd.Context(), "webhooks", nil)
			if err != nil {
				return err
			}
			return printList(e, text, []string{"NAME", "TEAM", "HOST", "STATE", "LAST SENT", "CREATED", "ERROR"}, func(w webhookRow) []string {
				return []string{w.Name, w.hears(), w.Host, w.State, moment(w.SentAt), moment(&w.CreatedAt), value(w.Error)}
			})
		},
	}
}

func newWebhooksCreateCmd(e *Env) *cobra.Command {
	var variable, file, team string
	cmd := &cobra.Command{
		Use: "create NAME --to-env VARIABLE | --to-file FILE", Short: "Have a chat be told of calls that wait",
		Long: `Have a chat be told of calls that wait for a decision, by an incoming webhook of Slack, or of a chat
that is compatible with it. Messages name agent, skill and tool, link to the dashboard, and hold no
arguments.

The webhook's URL is a credential: whoever has it can write there. It is read from a variable or a
file, sent once, kept encrypted and not shown again.`,
		Example: `  holdpoint webhooks create on-call --to-env SLACK_WEBHOOK_URL
  holdpoint webhooks create finance --to-file - --team finance < url.txt`,
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			address, err := e.webhookURL(variable, file)
			if err != nil {
				return err
			}
			body := map[string]string{"name": args[0], "url": address}
			if team != "" {
				body["team"] = team
			}
			text, err := e.post(cmd.Context(), "webhooks", body)
			if err != nil {
				return err
			}
			if e.json {
				return e.printJSON(text)
			}
			return write(e.Stdout, cell("Created. Try it: holdpoint webhooks test "+args[0])+"\n")
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&variable, "to-env", "", "name of the environment variable that holds the URL")
	flags.StringVar(&file, "to-file", "", "file that holds the URL; - is standard input")
	flags.StringVar(&team, "team", "", "tell it of this team's calls only")
	return cmd
}

// webhookURL reads the URL from where flags say.
func (e *Env) webhookURL(variable, file string) (string, error) {
	switch {
	case (variable == "") == (file == ""):
		return "", misuse("say with one of --to-env and --to-file where the webhook's URL is")
	case variable != "":
		return e.variable(variable)
	}
	return e.fileText(file)
}

func newWebhooksDeleteCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "delete NAME", Short: "Tell a chat no more", Example: "  holdpoint webhooks delete on-call",
		Args: usage(cobra.ExactArgs(1)), ValidArgsFunction: e.completeNames("webhooks"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.remove(cmd.Context(), "webhooks/"+client.Segment(args[0]), "Deleted.")
		},
	}
}

func newWebhooksTestCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "test NAME", Short: "Send a chat a message that says it is a test",
		Long: `Send a chat a message that says it is a test, and say whether the chat took it. When it did not, the
exit code is 1.`,
		Example: "  holdpoint webhooks test on-call",
		Args:    usage(cobra.ExactArgs(1)), ValidArgsFunction: e.completeNames("webhooks"),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := e.post(cmd.Context(), "webhooks/"+client.Segment(args[0])+"/test", nil)
			if err != nil {
				return err
			}
			tested, err := decode[webhookRow](text)
			if err != nil {
				return err
			}
			if e.json {
				if err := e.printJSON(text); err != nil {
					return err
				}
			}
			if tested.Error != nil {
				return fmt.Errorf("%s %s", tested.Host, *tested.Error)
			}
			if e.json {
				return nil
			}
			return write(e.Stdout, cell(tested.Host+" took the message")+".\n")
		},
	}
}
