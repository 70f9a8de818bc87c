package cli

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/manifest"
	"github.com/holdpoint/holdpoint/internal/client"
)

func newPoliciesCmd(e *Env) *cobra.Command {
	cmd := newGroup("policies", "Approval policies: who has to approve a call, and how many",
		&cobra.Command{
			Use: "list", Short: "List approval policies by name", Example: "  holdpoint policies list",
			RunE: e.withClient(func(ctx context.Context, api *client.Client, _ []string) error {
				reply, err := api.ListPolicies(ctx)
				return printList(e, reply, err, []string{"NAME", "NEEDS", "CHANGED", "USED BY"}, func(p *client.Policy) []string {
					return []string{p.Name, clipCell(formatAlternatives(p.Any), 80), formatTime(&p.ChangedAt), clipCell(strings.Join(p.UsedBy, ", "), 60)}
				})
			}),
		},
		&cobra.Command{
			Use: "show POLICY", Short: "Show an approval policy",
			Example: "  holdpoint policies show two-of-finance",
			RunE:    showOne(e, (*client.Client).GetPolicy, e.showPolicy),
		},
		newPoliciesSetCmd(e),
		&cobra.Command{
			Use: "delete POLICY", Short: "Delete an approval policy that nothing uses; its versions are kept",
			Example: "  holdpoint policies delete two-of-finance",
			RunE:    e.deleteOne((*client.Client).DeletePolicy, "Deleted."),
		},
		&cobra.Command{
			Use: "history POLICY", Short: "List the versions of an approval policy, newest first, also of a deleted one",
			Example: "  holdpoint policies history two-of-finance",
			RunE: e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
				reply, err := api.PolicyHistory(ctx, args[0])
				return printList(e, reply, err, []string{"REVISION", "CHANGED", "BY", "NEEDS"}, func(v *client.PolicyVersion) []string {
					needs := "(deleted)"
					if v.Policy != nil {
						needs = clipCell(formatAlternatives(v.Policy.Any), 80)
					}
					return []string{count(v.Revision), formatTime(&v.ChangedAt), shortPerson(v.ChangedBy), needs}
				})
			}),
		})
	cmd.SuggestFor = []string{"policy"}
	return cmd
}

func newPoliciesSetCmd(e *Env) *cobra.Command {
	var file string
	var revision int64
	cmd := &cobra.Command{
		Use: "set POLICY --file FILE", Short: "Create an approval policy, or replace one",
		Long: `Create an approval policy, or replace the one of this name. The file has it as an entry of
"policies:" in holdpoint.yaml. Calls that wait are asked about again if their policy changes: their
votes do not count any more.`,
		Example: "  holdpoint policies set two-of-finance --file two-of-finance.yaml",
	}
	flags := cmd.Flags()
	flags.StringVar(&file, "file", "", `file with the policy; "-" is the standard input`)
	flags.Int64Var(&revision, "revision", 0, "replace only the policy of this revision; 0: only if there is none")
	cmd.RunE = e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
		if file == "" {
			return misusef("give the policy as a --file")
		}
		body, declared, err := e.readSpecFile(args[0], file, manifest.ParsePolicy)
		if err != nil {
			return err
		}
		if flags.Changed("revision") {
			body["revision"] = revision
		}
		text, err := api.Send(ctx, http.MethodPut, "/api/v1/policies/"+client.Segment(args[0]), body)
		if err != nil {
			return locateErrors(declared, "body", err)
		}
		return printReply(e, client.Reply[client.Policy](text), nil, e.showPolicy)
	})
	return cmd
}

// formatAlternatives says who has to approve, such as "2 of finance and 1 of compliance, or 1 of cfo@example.com".
func formatAlternatives(list []client.PolicyAlternative) string {
	alternatives := make([]string, len(list))
	for i := range list {
		lines := make([]string, len(list[i].All))
		for j, line := range list[i].All {
			lines[j] = formatLine(line.Count, line.Teams, line.People)
		}
		alternatives[i] = strings.Join(lines, " and ")
	}
	return strings.Join(alternatives, ", or ")
}

func formatLine(needed int64, teams, people []string) string {
	who := strings.Join(append(append([]string{}, teams...), people...), " or ")
	if who == "" {
		who = "all reviewers"
	}
	return fmt.Sprintf("%d of %s", needed, who)
}

func (e *Env) showPolicy(p *client.Policy) error {
	pairs := []string{"Policy", p.Name}
	for i := range p.Any {
		label := "Needs"
		if i > 0 {
			label = "or"
		}
		pairs = append(pairs, label, formatAlternatives(p.Any[i:i+1]))
	}
	alone := "nobody"
	if p.BreakGlass {
		alone = "any reviewer, with a reason that another person reviews"
	}
	pairs = append(pairs, "Rejections that end a call", count(max(1, p.Rejections)), "Time to decide", p.ApprovalTimeout, "Time to send", p.ApprovalValidity,
		"May approve alone", alone, "Used by", strings.Join(p.UsedBy, ", "),
		"Revision", count(p.Revision), "Changed", formatTime(&p.ChangedAt), "Changed by", fullPerson(p.ChangedBy))
	return e.printFields(pairs...)
}

// voteFields are the lines about the policies of a call, and the votes.
func voteFields(a *client.Approval) []string {
	var pairs []string
	for i := range a.Policies {
		p := &a.Policies[i]
		alternatives := make([]string, len(p.Any))
		for j := range p.Any {
			lines := make([]string, len(p.Any[j].All))
			for k := range p.Any[j].All {
				line := &p.Any[j].All[k]
				lines[k] = fmt.Sprintf("%s (%d so far)", formatLine(line.Count, line.Teams, line.People), len(line.By))
			}
			alternatives[j] = strings.Join(lines, " and ")
		}
		pairs = append(pairs, "Policy", p.Name+": "+strings.Join(alternatives, ", or "))
	}
	for i := range a.Votes {
		v := &a.Votes[i]
		said := "approved by "
		if !v.Approves {
			said = "rejected by "
		}
		text := said + fullPerson(fallbackPerson(v.ByPerson, &v.By)) + ", " + formatTime(&v.At)
		if v.Note != "" {
			text += ": " + v.Note
		}
		if !v.Counts {
			text += " (does not count)"
		}
		pairs = append(pairs, "Vote", text)
	}
	if a.BrokeGlass {
		text := "one person approved alone; nobody has reviewed that"
		if r := a.GlassReview; r != nil {
			text = "one person approved alone; reviewed by " + fullPerson(fallbackPerson(r.ByPerson, &r.By)) + ", " + formatTime(&r.At)
		}
		pairs = append(pairs, "Break-glass", text)
	}
	return pairs
}
