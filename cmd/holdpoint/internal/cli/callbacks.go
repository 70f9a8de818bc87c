package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/client"
)

func newCallbackCmd(e *Env) *cobra.Command {
	return group("callback", "Other systems that are told of an agent's calls, by signed webhooks",
		newCallbackListCmd(e), newCallbackCreateCmd(e), newCallbackRotateCmd(e), newCallbackDeleteCmd(e),
		newCallbackTurnCmd(e, "enable", "Send to a callback again, from now on", "Enabled."),
		newCallbackTurnCmd(e, "disable", "Send nothing to a callback until it is enabled", "Disabled."),
		newCallbackTestCmd(e), newDeliveriesCmd(e), newResendCmd(e))
}

type callbackRow struct {
	Name      string     `json:"name"`
	Host      string     `json:"host"`
	State     string     `json:"state"`
	Reason    *string    `json:"disabled_reason"`
	Waiting   int        `json:"waiting"`
	Error     *string    `json:"error"`
	SentAt    *time.Time `json:"sent_at"`
	Earlier   *time.Time `json:"earlier_secret_until"`
	CreatedAt time.Time  `json:"created_at"`
}

type deliveryRow struct {
	ID       string    `json:"id"`
	Type     string    `json:"type"`
	At       time.Time `json:"at"`
	CallID   *string   `json:"call_id"`
	Status   *string   `json:"status"`
	State    string    `json:"state"`
	Attempts int       `json:"attempts"`
	Error    *string   `json:"error"`
}

func callbacksPath(agent string) string { return "agents/" + client.Segment(agent) + "/callbacks" }

func callbackPath(args []string) string {
	return callbacksPath(args[0]) + "/" + client.Segment(args[1])
}

func newCallbackListCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "list AGENT", Short: "List an agent's callbacks, without their URLs and secrets",
		Example: "  holdpoint agent callback list billing",
		Args:    usage(cobra.ExactArgs(1)), ValidArgsFunction: e.completeNames("agents"),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := e.get(cmd.Context(), callbacksPath(args[0]), nil)
			if err != nil {
				return err
			}
			header := []string{"NAME", "HOST", "STATE", "WAITING", "LAST SENT", "EARLIER SECRET UNTIL", "CREATED", "ERROR"}
			return printList(e, text, header, func(c callbackRow) []string {
				if c.Reason != nil && *c.Reason == "gone" {
					c.State += " (gone)"
				}
				return []string{
					c.Name, c.Host, c.State, strconv.Itoa(c.Waiting), moment(c.SentAt), moment(c.Earlier), moment(&c.CreatedAt), value(c.Error),
				}
			})
		},
	}
}

func newCallbackCreateCmd(e *Env) *cobra.Command {
	var address, variable, file string
	cmd := &cobra.Command{
		Use: "create AGENT NAME --url URL | --to-env VARIABLE | --to-file FILE", Short: "Have another system be told of an agent's calls",
		Long: `Have another system be told when a call of an agent is parked, decided and finished, by webhooks that
are signed as the Standard Webhooks specification says. They hold ids and statuses, and nothing of
what is in a call.

The secret that signs is printed, this once. The URL is kept encrypted and not shown again; when it
is a credential, have it read from a variable or a file.`,
		Example: `  holdpoint agent callback create billing ops --url https://ops.example.com/holdpoint
  holdpoint agent callback create billing ops --to-env OPS_WEBHOOK_URL`,
		Args: usage(cobra.ExactArgs(2)), ValidArgsFunction: e.completeNames("agents"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if (address == "") == (variable == "" && file == "") {
				return misuse("say with one of --url, --to-env and --to-file where the other system is")
			}
			if address == "" {
				if address, err = e.webhookURL(variable, file); err != nil {
					return err
				}
			}
			text, err := e.post(cmd.Context(), callbacksPath(args[0]), map[string]string{"name": args[1], "url": address})
			if err != nil {
				return err
			}
			return e.printCallbackSecret(text)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&address, "url", "", "where the other system takes webhooks")
	flags.StringVar(&variable, "to-env", "", "name of the environment variable that holds the URL")
	flags.StringVar(&file, "to-file", "", "file that holds the URL; - is standard input")
	return cmd
}

// printCallbackSecret prints a new secret: on the standard output nothing else.
func (e *Env) printCallbackSecret(text json.RawMessage) error {
	if e.json {
		return e.printJSON(text)
	}
	made, err := decode[struct {
		Secret string `json:"secret"`
	}](text)
	if err != nil {
		return err
	}
	e.notef("%s", "The secret that signs what is sent. It is not shown again.")
	return write(e.Stdout, made.Secret+"\n")
}

func newCallbackRotateCmd(e *Env) *cobra.Command {
	var grace time.Duration
	cmd := &cobra.Command{
		Use: "rotate-secret AGENT NAME", Short: "Give a callback a new secret and print it, this once",
		Long: `Give a callback a new secret and print it, this once. For the grace period the earlier one signs too, so
that the other system can change over; --grace 0 ends it at once, for when somebody else got it.`,
		Example: `  holdpoint agent callback rotate-secret billing ops
  holdpoint agent callback rotate-secret billing ops --grace 0`,
		Args: usage(cobra.ExactArgs(2)), ValidArgsFunction: e.completeNames("agents"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if grace < 0 || grace%time.Second != 0 {
				return misuse("--grace must be whole seconds, and not negative")
			}
			text, err := e.post(cmd.Context(), callbackPath(args)+"/rotate-secret", map[string]int64{"grace_seconds": int64(grace.Seconds())})
			if err != nil {
				return err
			}
			return e.printCallbackSecret(text)
		},
	}
	cmd.Flags().DurationVar(&grace, "grace", 24*time.Hour, "how long the earlier secret signs too, at most 168h")
	return cmd
}

func newCallbackDeleteCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "delete AGENT NAME", Short: "Tell another system no more, and forget what it was told",
		Example: "  holdpoint agent callback delete billing ops",
		Args:    usage(cobra.ExactArgs(2)), ValidArgsFunction: e.completeNames("agents"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.remove(cmd.Context(), callbackPath(args), "Deleted.")
		},
	}
}

func newCallbackTurnCmd(e *Env, verb, short, done string) *cobra.Command {
	return &cobra.Command{
		Use: verb + " AGENT NAME", Short: short, Example: "  holdpoint agent callback " + verb + " billing ops",
		Args: usage(cobra.ExactArgs(2)), ValidArgsFunction: e.completeNames("agents"),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := e.post(cmd.Context(), callbackPath(args)+"/"+verb, nil)
			if err != nil {
				return err
			}
			if e.json {
				return e.printJSON(text)
			}
			return write(e.Stdout, done+"\n")
		},
	}
}

func newCallbackTestCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "test AGENT NAME", Short: "Send a callback a message that says it is a test",
		Long: `Send a callback a message of the type callback.test, and say whether it was taken. When it was not, the
exit code is 1.`,
		Example: "  holdpoint agent callback test billing ops",
		Args:    usage(cobra.ExactArgs(2)), ValidArgsFunction: e.completeNames("agents"),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := e.post(cmd.Context(), callbackPath(args)+"/test", nil)
			if err != nil {
				return err
			}
			sent, err := decode[deliveryRow](text)
			if err != nil {
				return err
			}
			if e.json {
				if err := e.printJSON(text); err != nil {
					return err
				}
			}
			if sent.Error != nil {
				return fmt.Errorf("%s %s", args[1], *sent.Error)
			}
			if sent.State != "delivered" {
				return errors.New(args[1] + " did not take the message")
			}
			if e.json {
				return nil
			}
			return write(e.Stdout, cell(args[1]+" took the message")+".\n")
		},
	}
}

func newDeliveriesCmd(e *Env) *cobra.Command {
	var p page
	cmd := &cobra.Command{
		Use: "deliveries AGENT NAME", Short: "List messages to a callback, newest first",
		Long: `List messages to a callback, newest first, and what came of them. With --json, each has the log of its
attempts.`,
		Example: "  holdpoint agent callback deliveries billing ops",
		Args:    usage(cobra.ExactArgs(2)), ValidArgsFunction: e.completeNames("agents"),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := e.get(cmd.Context(), callbackPath(args)+"/deliveries", p.query())
			if err != nil {
				return err
			}
			return printList(e, text, []string{"ID", "TYPE", "CALL", "STATUS", "AT", "STATE", "ATTEMPTS", "ERROR"}, func(d deliveryRow) []string {
				return []string{d.ID, d.Type, value(d.CallID), value(d.Status), moment(&d.At), d.State, strconv.Itoa(d.Attempts), value(d.Error)}
			})
		},
	}
	p.bind(cmd)
	return cmd
}

func newResendCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "resend AGENT NAME ID", Short: "Send a message again, at once, with the id that it had",
		Example: "  holdpoint agent callback resend billing ops 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11",
		Args:    usage(cobra.ExactArgs(3)), ValidArgsFunction: e.completeNames("agents"),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := e.post(cmd.Context(), callbackPath(args)+"/deliveries/"+client.Segment(args[2])+"/resend", nil)
			if err != nil {
				return err
			}
			if e.json {
				return e.printJSON(text)
			}
			return write(e.Stdout, "It is being sent again.\n")
		},
	}
}
