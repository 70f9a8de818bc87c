package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/manifest"
	"github.com/holdpoint/holdpoint/internal/client"
)

func newRulesReplayCmd(e *Env) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "replay RULE [--file FILE]", Short: "Judge recorded calls by a rule, and list those with another verdict",
		Long: `Judge recorded calls by a rule as if it had been in force, whatever its mode, and list those that would
have got another verdict. Calls that a reviewer rejected come first. Nothing is stored.

The newest calls in the rule's scope are judged, at most 100,000. With --file, the rule is what the file
says, and need not be stored.`,
		Example: `  holdpoint rules replay small-payments
  holdpoint rules replay small-payments --file small-payments.yaml`,
		RunE: e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			body, declared, err := e.readRule(ctx, api, args[0], file)
			if err != nil {
				return err
			}
			delete(body, "revision")
			body["name"] = args[0]
			text, err := api.Send(ctx, http.MethodPost, "/api/v1/rules/replay", body)
			if err != nil && declared != nil {
				return locateErrors(declared, "body", err)
			}
			return printReply(e, client.Reply[client.RuleReplay](text), err, e.showReplay)
		}),
	}
	cmd.Flags().StringVar(&file, "file", "", `file with the rule, as an entry of "rules:" in holdpoint.yaml; "-" is the standard input`)
	return cmd
}

// readRule returns the body of a request about the rule of a file, or about the stored one if there is no file.
func (e *Env) readRule(ctx context.Context, api *client.Client, name, file string) (map[string]any, *manifest.Manifest, error) {
	if file != "" {
		return e.readSpecFile(name, file, manifest.ParseRule)
	}
	reply, err := api.GetRule(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	var body map[string]any
	if err := json.Unmarshal(reply, &body); err != nil {
		return nil, nil, fmt.Errorf("understand the server's answer: %w", err)
	}
	for _, member := range []string{"name", "changed_at", "changed_by", "warnings", "shadow"} { // a request does not have them
		delete(body, member)
	}
	maps.DeleteFunc(body, func(_ string, value any) bool {
		list, isList := value.([]any)
		return value == nil || isList && len(list) == 0
	})
	return body, nil, nil
}

// readSpecFile reads a rule or policy from a file, without its name.
func (e *Env) readSpecFile(name, file string, parse func(string, []byte, manifest.Options) (*manifest.Manifest, error)) (map[string]any, *manifest.Manifest, error) {
	text, err := e.readFile(file)
	if err != nil {
		return nil, nil, err
	}
	if file == "-" {
		file = "standard input"
	}
	declared, err := parse(file, text, manifest.Options{Getenv: e.Getenv})
	if err != nil {
		return nil, nil, err
	}
	var body map[string]any
	if err := json.Unmarshal(declared.Spec, &body); err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", file, err)
	}
	if other, named := body["name"]; named && other != name {
		return nil, nil, manifest.Errors{declared.Locate("name", fmt.Sprintf("must be %s, or omitted", name))}
	}
	delete(body, "name")
	return body, declared, nil
}

func (e *Env) showReplay(r *client.RuleReplay) error {
	judged := count(r.Judged)
	if r.Since != nil {
		judged += ", since " + formatTime(r.Since)
	}
	if !r.Complete {
		judged += "; there are older ones"
	}
	err := e.printFields("Judged", judged, "Condition holds", count(r.Matched), "Condition fails", count(r.Failed),
		"Other verdict", count(r.Differing), "Of these rejected", count(r.Rejected))
	if err != nil {
		return err
	}
	rows := make([][]string, len(r.Differences))
	for i := range r.Differences {
		d := &r.Differences[i]
		rows[i] = []string{d.CallID, formatTime(&d.CreatedAt), d.Agent, d.Skill + ": " + d.Tool, d.Before, value(d.Decision), d.After, value(d.Failure)}
	}
	return e.printFurtherTable([]string{"CALL", "MADE", "AGENT", "TOOL", "WAS", "DECISION", "WOULD BE", "FAILURE"}, rows)
}
