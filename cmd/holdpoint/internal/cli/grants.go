package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/approval/grant"
	"github.com/holdpoint/holdpoint/internal/client"
)

func newGrantsCmd(e *Env) *cobra.Command {
	return newGroup("grants", "Grants: standing approvals of calls like one that you saw",
		newGrantsListCmd(e),
		&cobra.Command{
			Use: "show GRANT", Short: "Show a grant",
			Example: "  holdpoint grants show 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11",
			RunE:    showOne(e, (*client.Client).GetGrant, e.showGrant),
		},
		newGrantsSuggestionsCmd(e), newGrantsPreviewCmd(e), newGrantsCreateCmd(e),
		&cobra.Command{
			Use: "confirm GRANT", Short: "Confirm a grant of another person, because it allows a call that was rejected",
			Example: "  holdpoint grants confirm 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11",
			RunE:    showOne(e, (*client.Client).ConfirmGrant, e.showGrant),
		},
		&cobra.Command{
			Use: "revoke GRANT", Short: "Revoke a grant; calls that it let pass and that are not sent yet are denied",
			Example: "  holdpoint grants revoke 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11",
			RunE:    showOne(e, (*client.Client).RevokeGrant, e.showGrant),
		})
}

func newGrantsListCmd(e *Env) *cobra.Command {
	var query client.ListGrantsQuery
	cmd := &cobra.Command{
		Use: "list", Short: "List grants, newest first", Example: "  holdpoint grants list --all",
		RunE: e.withClient(func(ctx context.Context, api *client.Client, _ []string) error {
			reply, err := api.ListGrants(ctx, query)
			return printList(e, reply, err, []string{"ID", "STATE", "AGENT", "FOR", "TOOL", "ARGUMENTS", "BY", "ENDS", "USED", "NOTES"}, func(g *client.Grant) []string {
				return []string{
					g.ID, g.State, g.Agent, shortPerson(g.Principal), g.Skill + ": " + g.Tool, clipCell(g.Sentence, 60), shortPerson(g.GrantedBy), formatTime(&g.EndsAt), formatTime(g.UsedAt), grantNotes(g),
				}
			})
		}),
	}
	cmd.Flags().BoolVar(&query.All, "all", false, "also those that have ended, are used up or were revoked")
	return cmd
}

func newGrantsSuggestionsCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "suggestions", Short: "List the grants that past decisions suggest; nothing is granted",
		Long: `List the grants that decisions of the last 30 days suggest, those that save most calls first. None covers a call that a reviewer rejected or
edited. To make one, open it in the dashboard, or pass its call to "holdpoint grants create".`,
		Example: "  holdpoint grants suggestions",
		RunE: e.withClient(func(ctx context.Context, api *client.Client, _ []string) error {
			reply, err := api.SuggestGrants(ctx)
			return printReply(e, reply, err, func(found *client.GrantSuggestions) error {
				rows := make([][]string, len(found.Items))
				for i := range found.Items {
					g := &found.Items[i]
					rows[i] = []string{g.CallID, g.Agent, shortPerson(g.Principal), g.Skill + ": " + g.Tool, count(g.Covered), count(g.Refused), count(g.Deciders), clipCell(g.Sentence, 100)}
				}
				return e.printTable([]string{"CALL", "AGENT", "FOR", "TOOL", "APPROVED", "REFUSED", "DECIDERS", "ARGUMENTS"}, rows)
			})
		}),
	}
}

func grantNotes(g *client.Grant) string {
	var notes []string
	if g.Wide {
		notes = append(notes, "wide")
	}
	if g.Unused {
		notes = append(notes, "unused")
	}
	return strings.Join(notes, ", ")
}

func (e *Env) showGrant(g *client.Grant) error {
	uses := "any number"
	if g.Uses != nil {
		uses = fmt.Sprintf("%d of %d", g.Taken, *g.Uses)
	}
	return e.printFields(
		"ID", g.ID, "State", g.State, "Agent", g.Agent, "On behalf of", fullPerson(g.Principal), "Tool", g.Skill+": "+g.Tool, "Arguments", g.Sentence, "From call", g.CallID, "From plan", g.PlanID,
		"Granted by", fullPerson(g.GrantedBy), "Granted", formatTime(&g.GrantedAt), "Ends", formatTime(&g.EndsAt), "Uses", uses, "Last use", formatTime(g.UsedAt), "Notes", grantNotes(g),
		"Confirmed by", fullPerson(g.SecondBy), "Confirmed", formatTime(g.SecondAt), "Revoked by", fullPerson(g.RevokedBy), "Revoked", formatTime(g.RevokedAt))
}

const grantArguments = `Without --allow, a call must have exactly the arguments of this one. --allow POINTER=KIND[:VALUES] widens one of
them; POINTER is its JSON pointer, and KIND is one of:

one_of      one of several values, separated by commas: /currency=one_of:EUR,USD
domain      an e-mail address or URL of a domain: /to=domain:example.com
path_below  a path below a folder: /path=path_below:/srv/scratch
prefix      a text with a beginning: /title=prefix:Re:
range       a number within bounds: /amount=range:0..100
anything    /body=anything

Without values, domain, path_below and prefix take that of the call.`

// readMatchers makes the matchers of a grant from a call and the flags --allow.
func readMatchers(proposals []client.GrantProposal, allow []string) ([]client.GrantMatcher, error) {
	matchers, at := make([]client.GrantMatcher, len(proposals)), map[string]int{}
	for i := range proposals {
		matchers[i], at[proposals[i].Argument] = proposals[i].Matchers[0], i
	}
	for _, one := range allow {
		pointer, rest, ok := strings.Cut(one, "=")
		kind, values, _ := strings.Cut(rest, ":")
		i, known := at[pointer]
		if !ok || !known {
			return nil, misusef("--allow %s: must begin with the JSON pointer of an argument of the call, and =", one)
		}
		p := grant.Proposal{Argument: pointer, Value: proposals[i].Value}
		for _, m := range proposals[i].Matchers {
			p.Matchers = append(p.Matchers, grant.Matcher{Argument: m.Argument, Kind: grant.Kind(m.Kind), Values: m.Values, Min: json.Number(m.Min), Max: json.Number(m.Max)})
		}
		m := p.Read(grant.Kind(kind), strings.ReplaceAll(values, ",", "\n"))
		matchers[i] = client.GrantMatcher{Argument: m.Argument, Kind: string(m.Kind), Values: m.Values, Min: numberOrNil(m.Min), Max: numberOrNil(m.Max)}
	}
	return matchers, nil
}

// numberOrNil omits a bound that is not given.
func numberOrNil(n json.Number) json.RawMessage {
	if n == "" {
		return nil
	}
	return json.RawMessage(n)
}

// proposeGrant reads the arguments of a call with the matchers that fit them.
func proposeGrant(ctx context.Context, api *client.Client, call string, allow []string) ([]client.GrantMatcher, error) {
	if len(allow) == 0 {
		return nil, nil
	}
	found, err := client.Value(api.PreviewGrant(ctx, client.GrantText{CallID: call}))
	if err != nil {
		return nil, err
	}
	return readMatchers(found.Proposals, allow)
}

func newGrantsPreviewCmd(e *Env) *cobra.Command {
	var allow []string
	cmd := &cobra.Command{
		Use: "preview CALL [--allow POINTER=KIND[:VALUES]]", Short: "List the calls that a grant would have allowed; nothing is stored",
		Long:    "List the recorded calls that a grant would have allowed. Nothing is stored.\n\n" + grantArguments,
		Example: `  holdpoint grants preview 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11 --allow /body=anything --allow /to=domain:example.com`,
		RunE: e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			matchers, err := proposeGrant(ctx, api, args[0], allow)
			if err != nil {
				return err
			}
			reply, err := api.PreviewGrant(ctx, client.GrantText{CallID: args[0], Arguments: matchers})
			return printReply(e, reply, err, e.showGrantPreview)
		}),
	}
	cmd.Flags().StringArrayVar(&allow, "allow", nil, "values of an argument that are allowed; may be repeated")
	return cmd
}

func (e *Env) showGrantPreview(p *client.GrantPreview) error {
	pairs := []string{"Arguments", p.Sentence, "Matching calls", fmt.Sprintf("%d, of which %d were rejected and %d are pending", p.Matching, p.Rejected, p.Pending)}
	if p.NeedsSecond {
		pairs = append(pairs, "Note", "another person will have to confirm it, because it allows a call that was rejected")
	}
	for _, argument := range p.Proposals {
		kinds := make([]string, len(argument.Matchers))
		for i, m := range argument.Matchers {
			kinds[i] = m.Kind
		}
		pairs = append(pairs, "May be wider", argument.Argument+": "+strings.Join(kinds, ", "))
	}
	for _, c := range p.Calls {
		pairs = append(pairs, "Call", c.CallID+" "+c.Decision+" "+formatTime(&c.CreatedAt))
	}
	return e.printFields(pairs...)
}

func newGrantsCreateCmd(e *Env) *cobra.Command {
	var allow []string
	var uses int64
	var lasts time.Duration
	cmd := &cobra.Command{
		Use: "create CALL [--allow POINTER=KIND[:VALUES]]", Short: "Allow calls like one",
		Long:    "Allow calls like one without an approval: of the same tool, agent and person, until the grant ends.\n\n" + grantArguments,
		Example: `  holdpoint grants create 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11 --allow /body=anything --time 24h --uses 20`,
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&allow, "allow", nil, "values of an argument that are allowed; may be repeated")
	flags.DurationVar(&lasts, "time", 0, "how long it lasts (default 8h)")
	flags.Int64Var(&uses, "uses", 0, "how many calls it allows (default any number)")
	cmd.RunE = e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
		matchers, err := proposeGrant(ctx, api, args[0], allow)
		if err != nil {
			return err
		}
		body := client.GrantRequest{CallID: args[0], Arguments: matchers}
		if flags.Changed("time") {
			body.Time = new(lasts.String())
		}
		if flags.Changed("uses") {
			body.Uses = &uses
		}
		reply, err := api.CreateGrant(ctx, body)
		return printReply(e, reply, err, e.showGrant)
	})
	return cmd
}
