package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/client"
	"github.com/holdpoint/holdpoint/ui/present"
)

func newRulesCmd(e *Env) *cobra.Command {
	return newGroup("rules", "Rules that allow, park or deny calls by their arguments",
		newRulesListCmd(e),
		&cobra.Command{
			Use: "show RULE", Short: "Show a rule",
			Example: "  holdpoint rules show small-payments",
			RunE:    showOne(e, (*client.Client).GetRule, e.showRule),
		},
		newRulesSetCmd(e),
		&cobra.Command{
			Use: "delete RULE", Short: "Delete a rule; its versions are kept",
			Example: "  holdpoint rules delete small-payments",
			RunE:    e.deleteOne((*client.Client).DeleteRule, "Deleted."),
		},
		&cobra.Command{
			Use: "history RULE", Short: "List the versions of a rule, newest first, also of a deleted one",
			Example: "  holdpoint rules history small-payments",
			RunE: e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
				reply, err := api.RuleHistory(ctx, args[0])
				return printList(e, reply, err, []string{"REVISION", "CHANGED", "BY", "EFFECT", "MODE", "ABOUT", "WHEN"}, func(v *client.RuleVersion) []string {
					row := []string{count(v.Revision), formatTime(&v.ChangedAt), shortPerson(v.ChangedBy)}
					if v.Rule == nil {
						return append(row, "(deleted)", "", "", "")
					}
					return append(row, formatEffect(v.Rule.Effect, v.Rule.HighRisk, v.Rule.Grants), v.Rule.Mode, formatScope(v.Rule.Agents, v.Rule.Skills, v.Rule.Tools), clipCell(v.Rule.When, 60))
				})
			}),
		},
		newRulesCheckCmd(e), newRulesReplayCmd(e), newRulesTestCmd(e))
}

func newRulesListCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List rules by name", Example: "  holdpoint rules list",
		RunE: e.withClient(func(ctx context.Context, api *client.Client, _ []string) error {
			reply, err := api.ListRules(ctx)
			return printList(e, reply, err, []string{"NAME", "EFFECT", "MODE", "ABOUT", "WHEN", "CHANGED", "WARNINGS"}, func(r *client.Rule) []string {
				warnings := ""
				if n := len(r.Warnings); n > 0 {
					warnings = count(int64(n))
				}
				return []string{
					r.Name, formatEffect(r.Effect, r.HighRisk, r.Grants), r.Mode, formatScope(r.Agents, r.Skills, r.Tools), clipCell(r.When, 60), formatTime(&r.ChangedAt), warnings,
				}
			})
		}),
	}
}

func formatEffect(effect string, highRisk, grants bool) string {
	switch {
	case highRisk:
		return effect + ", also high risk"
	case grants:
		return effect + ", unless granted"
	}
	return effect
}

// formatScope lists the calls that a rule is about.
func formatScope(agents, skills, tools []string) string {
	var parts []string
	for _, of := range []struct {
		kind  string
		names []string
	}{{"agents", agents}, {"skills", skills}, {"tools", tools}} {
		if len(of.names) > 0 {
			parts = append(parts, of.kind+" "+strings.Join(of.names, ", "))
		}
	}
	return cmp.Or(strings.Join(parts, "; "), "all calls")
}

func (e *Env) showRule(r *client.Rule) error {
	pairs := []string{
		"Rule", r.Name, "Effect", formatEffect(r.Effect, r.HighRisk, r.Grants), "Mode", r.Mode, "About", formatScope(r.Agents, r.Skills, r.Tools),
		"Message", value(r.Message), "Policy", value(r.Policy), "Revision", count(r.Revision), "Changed", formatTime(&r.ChangedAt), "Changed by", fullPerson(r.ChangedBy),
	}
	for _, w := range r.Warnings {
		pairs = append(pairs, "Does not fit", w.Skill+": "+w.Tool+": "+w.Message)
	}
	if err := e.printFields(pairs...); err != nil {
		return err
	}
	condition := cmp.Or(r.When, "(none: it holds for every call)")
	if r.When != "" {
		condition += "\n\nIt holds if " + present.DescribeCondition(r.When).String() + "."
	}
	if err := write(e.Stdout, Visible("\nCondition\n"+condition+"\n")); err != nil || r.Shadow == nil {
		return err
	}
	return e.showShadow(r.Shadow)
}

// showShadow prints what a rule in shadow mode would have done, beside what people decided. What it would have allowed and a reviewer rejected comes
// first.
func (e *Env) showShadow(s *client.RuleShadow) error {
	since := "since " + formatTime(&s.Since)
	if !s.Complete {
		since += "; older ones are left out"
	}
	if err := write(e.Stdout, fmt.Sprintf("\nIn shadow mode it matched %d calls (%s)\n", s.Matched, since)); err != nil {
		return err
	}
	rejected := make([][]string, len(s.Rejected))
	for i := range s.Rejected {
		c := &s.Rejected[i]
		rejected[i] = []string{c.CallID, formatTime(&c.CreatedAt), c.Agent, c.Skill + ": " + c.Tool}
	}
	if err := e.printFurtherTable([]string{"REJECTED, WOULD BE ALLOWED", "MADE", "AGENT", "TOOL"}, rejected); err != nil {
		return err
	}
	rows := make([][]string, len(s.Outcomes))
	for i := range s.Outcomes {
		o := &s.Outcomes[i]
		rows[i] = []string{o.Would}
		for _, n := range []int64{o.Calls, o.Approved, o.Edited, o.Rejected, o.Expired, o.Cancelled, o.Waiting, o.NotAsked} {
			rows[i] = append(rows[i], count(n))
		}
	}
	return e.printFurtherTable([]string{"WOULD", "CALLS", "APPROVED", "EDITED", "REJECTED", "EXPIRED", "CANCELLED", "WAITING", "NOT ASKED"}, rows)
}

// ruleFields are the lines about rules that were applied to a call.
func ruleFields(rules []client.AppliedRule) []string {
	var pairs []string
	for i := range rules {
		r := &rules[i]
		text := fmt.Sprintf("%s (revision %d): %s", r.Name, r.Revision, r.Effect)
		switch {
		case r.Failure != nil && r.Mode == "shadow":
			text += ", but failed: " + *r.Failure + "; in shadow mode, so it had no effect"
		case r.Failure != nil:
			text += ", but failed, so the call is parked: " + *r.Failure
		case r.Mode == "shadow":
			text += ", in shadow mode: it had no effect"
		}
		pairs = append(pairs, "Rule", text)
	}
	return pairs
}

func newRulesSetCmd(e *Env) *cobra.Command {
	var file, when, effect, mode, message, policy string
	var agents, skills, tools []string
	var highRisk, grants bool
	var revision int64
	cmd := &cobra.Command{
		Use: "set RULE", Short: "Create a rule, or change one",
		Long: `Create a rule, or change the fields of one that flags name; the others stay. With --file, the rule is
what the file says, as an entry of "rules:" in holdpoint.yaml; fields left out get their defaults.

A condition is checked against the tools in the rule's scope. "holdpoint rules check" does only that.
The rule is in force when the command returns; begin with --mode shadow to see what it would do.`,
		Example: `  holdpoint rules set small-payments --skill ledger --tool post_payment --when 'args.amount <= 100.0' --effect allow --mode shadow
  holdpoint rules set small-payments --mode enforce
  holdpoint rules set small-payments --file small-payments.yaml`,
	}
	flags := cmd.Flags()
	flags.StringVar(&file, "file", "", `file with the rule, as an entry of "rules:" in holdpoint.yaml; "-" is the standard input`)
	flags.StringSliceVar(&agents, "agent", nil, `agents that it is about, with * for any characters; may be repeated; "" is all`)
	flags.StringSliceVar(&skills, "skill", nil, `skills, likewise`)
	flags.StringSliceVar(&tools, "tool", nil, `tools by the names that their server uses, likewise`)
	flags.StringVar(&when, "when", "", `condition in CEL; "" holds for every call`)
	flags.StringVar(&effect, "effect", "", "allow, park or deny")
	flags.StringVar(&mode, "mode", "", "enforce, shadow or off")
	flags.StringVar(&message, "message", "", "tells the model why a call was denied")
	flags.BoolVar(&highRisk, "high-risk", false, "allow also calls of tools that are marked as high risk")
	flags.BoolVar(&grants, "grants", false, "let grants allow calls that it parks")
	flags.StringVar(&policy, "policy", "", `approval policy of the calls that it parks; "" is none`)
	flags.Int64Var(&revision, "revision", 0, "change only the rule of this revision; 0: only if there is none")
	cmd.RunE = e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
		changes := map[string]any{
			"agent": agents, "skill": skills, "tool": tools, "when": when, "effect": effect, "mode": mode, "message": message, "high-risk": highRisk, "policy": policy,
			"grants": grants,
		}
		for flag := range changes {
			if !flags.Changed(flag) {
				delete(changes, flag)
			} else if file != "" {
				return misusef("--file excludes --%s", flag)
			}
		}
		body, declared, err := e.readRule(ctx, api, args[0], file)
		var problem *client.Problem
		switch {
		case err == nil:
		case file != "" || !errors.As(err, &problem) || problem.Status != http.StatusNotFound:
			return err
		case effect == "":
			return misusef("there is no rule %s: create it with --effect allow, park or deny", args[0])
		default:
			body = map[string]any{"revision": 0}
		}
		for flag, value := range changes {
			member := cmp.Or(map[string]string{"agent": "agents", "skill": "skills", "tool": "tools", "high-risk": "high_risk"}[flag], flag)
			if body[member] = value; isEmptyList(value) {
				delete(body, member)
			}
		}
		if flags.Changed("revision") {
			body["revision"] = revision
		}
		text, err := api.Send(ctx, http.MethodPut, "/api/v1/rules/"+client.Segment(args[0]), body)
		if err != nil && declared != nil {
			return locateErrors(declared, "body", err)
		}
		return printReply(e, client.Reply[client.Rule](text), err, e.showRule)
	})
	return cmd
}

// isEmptyList reports whether a value is a list of names without a name, which stands for all.
func isEmptyList(value any) bool {
	names, ok := value.([]string)
	return ok && len(names) == 0
}

func newRulesCheckCmd(e *Env) *cobra.Command {
	var asked client.RuleCheckRequest
	cmd := &cobra.Command{
		Use: "check --when CONDITION [--skill NAME] [--tool NAME]", Short: "Compare a condition with the tools that a rule would be about",
		Long: `Compare a condition with the input schemas of the tools that a rule would be about, and print each
problem with its line and column. Nothing is stored. The exit code is 1 if there is a problem.`,
		Example: `  holdpoint rules check --when 'args.amount <= 100.0' --skill ledger --tool 'post_*'`,
		RunE: e.withClient(func(ctx context.Context, api *client.Client, _ []string) error {
			reply, err := api.CheckRule(ctx, asked)
			found, err := client.Value(reply, err)
			if err != nil {
				return err
			}
			wrong := len(found.Problems) > 0
			for i := range found.Tools {
				wrong = wrong || len(found.Tools[i].Problems) > 0
			}
			if err := printReply(e, reply, nil, e.showRuleCheck); err != nil {
				return err
			}
			if wrong {
				return &ExitError{Code: ExitFailure}
			}
			return nil
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&asked.When, "when", "", "condition in CEL")
	flags.StringSliceVar(&asked.Agents, "agent", nil, "agents, with * for any characters; may be repeated")
	flags.StringSliceVar(&asked.Skills, "skill", nil, "skills, likewise")
	flags.StringSliceVar(&asked.Tools, "tool", nil, "tools, likewise")
	return cmd
}

func (e *Env) showRuleCheck(found *client.RuleCheck) error {
	var b strings.Builder
	list := func(subject string, problems []client.RuleProblem) {
		for _, p := range problems {
			fmt.Fprintf(&b, "%s%d:%d: %s\n", subject, p.Line, p.Column, p.Message)
		}
	}
	list("", found.Problems)
	fits := 0
	for i := range found.Tools {
		t := &found.Tools[i]
		list(t.Skill+": "+t.Tool+": ", t.Problems)
		if len(t.Problems) == 0 {
			fits++
		}
	}
	switch {
	case len(found.Problems) > 0:
	case len(found.Tools) == 0:
		b.WriteString("The condition is valid. No listed tool is in the scope, so its fields were not checked.\n")
	default:
		fmt.Fprintf(&b, "The condition fits %d of %d tools in the scope.\n", fits, len(found.Tools))
	}
	return write(e.Stdout, Visible(b.String()))
}
