package cli

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/client"
)

func newApprovalsCmd(e *Env) *cobra.Command {
	group := newGroup("approvals", "The queue of calls that wait for a decision",
		newApprovalsListCmd(e), newApprovalsShowCmd(e), newApproveCmd(e), newRejectCmd(e),
		&cobra.Command{
			Use: "questions", Short: "List questions of skill servers that wait for a decision, the most urgent first",
			Long: `List the questions that skill servers asked after the approval of their calls, and that a reviewer has
to decide about. Look at one with "holdpoint approvals show ID", and decide with "holdpoint
approvals approve ID --question N --digest D".`,
			Example: "  holdpoint approvals questions",
			RunE: e.withClient(func(ctx context.Context, api *client.Client, _ []string) error {
				reply, err := api.ListQuestions(ctx)
				return printList(e, reply, err, []string{"ID", "QUESTION", "LEFT", "ASKS", "ANSWER"}, func(q *client.Question) []string {
					left := ""
					if q.Deadline != nil {
						left = e.formatRemaining(*q.Deadline)
					}
					return []string{q.ApprovalID, count(q.Number), left, clipCell(q.Method+" "+string(q.Params), 60), clipCell(orEmpty(q.Answer), 60)}
				})
			}),
		},
		&cobra.Command{
			Use: "withdraw ID", Short: "Take your vote on a call with a policy back, while the call waits",
			Example: "  holdpoint approvals withdraw 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11",
			RunE: showOne(e, (*client.Client).WithdrawVote, func(*client.Approval) error {
				return write(e.Stdout, "Your vote is withdrawn.\n")
			}),
		},
		newReviewCmd(e),
		&cobra.Command{
			Use: "extend ID", Short: "Give a call more time to be decided",
			Long: `Extend the deadline of a call by the time that it was first given. This is possible three times for
each call, and recorded.`,
			Example: "  holdpoint approvals extend 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11",
			RunE: showOne(e, (*client.Client).Extend, func(a *client.Approval) error {
				return write(e.Stdout, "The call waits until "+e.formatDeadline(a.Deadline)+".\n")
			}),
		})
	group.AddCommand(newClaimCmds(e)...)
	return group
}

func newApprovalsListCmd(e *Env) *cobra.Command {
	var query client.ListApprovalsQuery
	cmd := &cobra.Command{
		Use: "list", Short: "List approvals, newest first",
		Example: "  holdpoint approvals list\n  holdpoint approvals list --status all",
		RunE: e.withClient(func(ctx context.Context, api *client.Client, _ []string) error {
			if query.Status == "all" {
				query.Status = ""
			}
			reply, err := api.ListApprovals(ctx, query)
			header := []string{"ID", "STATUS", "LEFT", "AGENT", "FOR", "TOOL", "ARGUMENTS", "DECIDED BY", "WITH", "FROM"}
			return printList(e, reply, err, header, func(a *client.Approval) []string {
				left := ""
				if a.Status == "pending" {
					left = e.formatRemaining(a.Deadline)
				}
				d := value(a.Decision)
				return []string{
					a.ID, a.Status, left, a.Agent, shortPerson(fallbackPerson(a.PrincipalPerson, a.Principal)), a.Skill + ": " + a.Tool,
					clipCell(string(a.Arguments), 60), shortPerson(fallbackPerson(d.ByPerson, d.By)), formatCredential(d.Credential), value(d.Address),
				}
			})
		}),
	}
	cmd.Flags().StringVar(&query.Status, "status", "pending", "pending, approved, rejected, expired, cancelled or all")
	bindPage(cmd, &query.Limit, &query.Cursor)
	return cmd
}

func newApprovalsShowCmd(e *Env) *cobra.Command {
	var preview bool
	cmd := &cobra.Command{
		Use: "show ID", Short: "Show the call of an approval",
		Example: "  holdpoint approvals show 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11",
		RunE: e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			if preview {
				reply, err := api.PreviewCall(ctx, args[0])
				return printReply(e, reply, err, e.showPreview)
			}
			reply, err := api.GetApproval(ctx, args[0])
			return printReply(e, reply, err, e.showApproval)
		}),
	}
	cmd.Flags().BoolVar(&preview, "preview", false, "show the current state of what the call would change instead (HTTP APIs)")
	return cmd
}

// gateFields describes the claims of the caller of a gate-only call, as claims.
func gateFields(g *client.GateCaller) (pairs []string) {
	if g == nil {
		return nil
	}
	pairs = []string{
		"Claimed by the caller", "Holdpoint did not check the indented lines",
		"  Executed by", value(g.Host), "  Made for", value(g.Subject), "  Location", value(g.Cwd),
	}
	for _, path := range g.Paths {
		pairs = append(pairs, "  Resolved path", path)
	}
	if f := g.File; f != nil {
		state := "does not exist yet"
		if f.Exists {
			state = fmt.Sprintf("%d bytes", f.Size)
		}
		pairs = append(pairs, "  Changes the file", f.Path+" ("+state+")")
	}
	pairs = append(pairs, "  Session", value(g.SessionID), "  Subagent", value(g.Subagent), "  Version", value(g.Version))
	return pairs
}

func (e *Env) showApproval(a *client.Approval) error {
	sentence := fmt.Sprintf("%s wants %s: %s", a.Agent, a.Skill, a.Tool)
	if person := fallbackPerson(a.PrincipalPerson, a.Principal); person != nil {
		sentence += " on behalf of " + fullPerson(person)
	}
	if err := write(e.Stdout, escapeCell(sentence)+"\n\n"+Visible(prettyJSON(a.Arguments))+"\n\n"+formatRequest(a.Request)); err != nil {
		return err
	}
	pairs := []string{
		"Approval", a.ID, "Status", a.Status, "Risk", formatRisk(value(a.Risk)), "Parked because", a.Rule, "Asked", formatTime(&a.CreatedAt),
		"Team", value(a.Team), "Escalation", formatSteps(a.Escalation),
	}
	pairs = append(pairs, gateFields(a.Gate)...)
	pairs = append(pairs, ruleFields(a.Rules)...)
	pairs = append(pairs, voteFields(a)...)
	pairs = append(pairs, evidenceFields(a.Evidence)...)
	pairs = append(pairs, fileFields(a.Files)...)
	for _, one := range a.Shortages {
		pairs = append(pairs, "Reviewers", fmt.Sprintf("too few for policy %s: it asks for %s, and %d could approve for that", one.Policy, one.Needs, one.Able))
	}
	if a.Reviewers != nil && !*a.Reviewers && len(a.Shortages) == 0 {
		pairs = append(pairs, "Reviewers", "no known reviewer may decide this call")
	}
	switch {
	case a.Edit != nil:
		by := fullPerson(fallbackPerson(a.Edit.ByPerson, &a.Edit.By)) + ", at " + formatTime(&a.Edit.At)
		if a.Status == "pending" {
			by += ". Another reviewer has to approve these arguments"
		}
		pairs = append(pairs, "Edited by", by, "The agent wrote", clipCell(string(a.Edit.SubmittedArguments), 2000))
	case a.Edited:
		pairs = append(pairs, "Edited", "approved with these arguments, not with those that the call was made with")
	}
	if a.Status == "pending" {
		pairs = append(pairs, "Deadline", e.formatDeadline(a.Deadline), "Claimed by", formatClaim(a.Claim))
	}
	pairs = append(pairs, commentFields(a.Comments)...)
	pairs = append(pairs, decisionFields(a.Decision)...)
	pairs = append(pairs, "Valid until", formatTime(a.ApprovedUntil), "Digest", a.Digest, "Tool's pin", a.ToolPin)
	if err := e.printFields(pairs...); err != nil {
		return err
	}
	for i := range a.Questions {
		if err := e.showQuestion(&a.Questions[i]); err != nil {
			return err
		}
	}
	return nil
}

// evidenceFields says which arguments are unusual, and why.
func evidenceFields(list []client.Evidence) []string {
	var pairs []string
	compared := 0
	for i := range list {
		e := &list[i]
		compared = int(e.Usual.Calls)
		if e.Verdict == "unusual" {
			pairs = append(pairs, "Unusual", escapeCell(e.Path+": "+strings.Join(e.Reasons, ", ")+formatUsual(e.Usual)+formatLast(e.Last)))
		}
	}
	switch {
	case len(list) == 0:
		return nil
	case list[0].Verdict == "no_history":
		return []string{"Usual values", "no history yet: fewer than three approved calls of this tool"}
	case len(pairs) == 0:
		return []string{"Usual values", fmt.Sprintf("all arguments are as in %d approved calls", compared)}
	}
	return pairs
}

// formatUsual describes the usual values of an argument.
func formatUsual(u *client.Usual) string {
	switch {
	case u.Nearest != nil:
		return "; usual: " + *u.Nearest
	case u.Min != nil && u.Max != nil:
		usual := fmt.Sprintf("; usual: %s to %s", formatNumber(*u.Min), formatNumber(*u.Max))
		if u.Currency != nil {
			usual += " " + *u.Currency
		}
		return usual
	case len(u.Values) > 0:
		return "; usual: " + strings.Join(u.Values, ", ")
	case len(u.Domains) > 0:
		return "; usual: " + strings.Join(u.Domains, ", ")
	}
	return ""
}

// formatLast describes the last approved call to the same target.
func formatLast(l *client.LastCall) string {
	if l == nil {
		return ""
	}
	return fmt.Sprintf("; was: %s in the last call to %s, %s", l.Value, l.Target, formatTime(&l.At))
}

func formatNumber(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func formatRisk(risk string) string {
	switch risk {
	case "high":
		return "high: an operator marked this tool"
	case "destructive":
		return "destructive: the server says so"
	}
	return risk
}

// formatRequest shows the exact request of a call to an HTTP API. For nil it returns "".
func formatRequest(o *client.Outgoing) string {
	if o == nil {
		return ""
	}
	var text strings.Builder
	text.WriteString("The request:\n\n" + escapeCell(o.Method+" "+o.URL) + "\n")
	for _, h := range o.Headers {
		text.WriteString(escapeCell(h.Name+": "+headerValue(h)) + "\n")
	}
	return text.String() + formatContent(o.Text, o.Bytes) + "\n"
}

func headerValue(h client.OutgoingHeader) string {
	if h.Secret {
		return "(secret)"
	}
	return h.Value
}

// formatContent shows a body after an empty line. Without a body it returns "".
func formatContent(text, base64 *string) string {
	switch {
	case text != nil && json.Valid([]byte(*text)):
		return "\n" + Visible(prettyJSON([]byte(*text))) + "\n"
	case text != nil:
		return "\n" + Visible(*text) + "\n"
	case base64 != nil:
		return "\n(no text; in base64)\n" + escapeCell(*base64) + "\n"
	}
	return ""
}

// showPreview shows the current state of the resource that a call would change.
func (e *Env) showPreview(p *client.Preview) error {
	request := value(p.Request)
	head := fmt.Sprintf("%s %s answers HTTP %d:", request.Method, request.URL, p.Status)
	tail := ""
	if p.Cut {
		tail = "\n(only the beginning was read)\n"
	}
	return write(e.Stdout, escapeCell(head)+"\n"+formatContent(p.Text, p.Bytes)+tail)
}

func newApproveCmd(e *Env) *cobra.Command {
	var digest, note, arguments string
	var question int64
	var breakGlass bool
	cmd := &cobra.Command{
		Use: "approve ID", Short: "Approve a call, exactly as it is shown, or with other arguments",
		Long: `Approve a call by the digest that "approvals show" shows. If anything about the call has changed
since, the server refuses.

Without --digest the call is shown. At a terminal you are then asked to confirm it; elsewhere
nothing is approved. A call of a tool that an operator marked as high risk, or that its server calls
destructive, always needs --digest.

With --args the call is sent with these arguments instead. They are checked against the tool's
schema, the difference is recorded, and the agent is told. Where edits of the skill need a second
reviewer (by default, tools of high risk), the call waits until another reviewer approves the edit.
That reviewer sees the edited arguments and approves without --args. The agent's own arguments,
given with --args, discard the edit and are approved.

Where the policy of a call asks for several people, your approval is a vote. The call is approved
with the last one. With --break-glass you approve alone, if the policy allows that: the people whom
it asks are told, and another person has to review your approval.

With --question you decide about a question that the skill's server asked after the approval: about
the client's answer to it, or about a URL before the client opens it. This always needs the digest
that "holdpoint approvals show" shows with the question.`,
		Example: `  holdpoint approvals approve 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11 --digest 5f0c… --note "checked with Rita"
  holdpoint approvals approve 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11 --digest 5f0c… --args '{"path":"/srv/shared/test.txt"}'
  holdpoint approvals approve 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11 --question 1 --digest 88ab…`,
	}
	flags := cmd.Flags()
	flags.StringVar(&digest, "digest", "", "digest of the approval as it was shown to you")
	flags.StringVar(&note, "note", "", "note for the record")
	flags.StringVar(&arguments, "args", "", "other arguments, as JSON")
	flags.BoolVar(&breakGlass, "break-glass", false, "approve alone, though the policy of the call asks for others; --note has to say why")
	flags.Int64Var(&question, "question", 0, "number of the server's question to decide")
	cmd.RunE = e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
		id := args[0]
		if flags.Changed("question") {
			if arguments != "" {
				return misusef("--args belongs to calls: a question is approved with the answer that the client gave")
			}
			if err := checkQuestion(id, question, digest); err != nil {
				return err
			}
			reply, err := api.ApproveQuestion(ctx, id, question, client.DecideQuestionRequest{Digest: digest, Note: given(note)})
			return printReply(e, reply, err, e.showDecidedQuestion)
		}
		body := client.ApproveRequest{Note: given(note), Digest: digest}
		if breakGlass {
			body.BreakGlass = &breakGlass
		}
		if arguments != "" {
			if !json.Valid([]byte(arguments)) {
				return misusef("--args: must be a JSON object")
			}
			body.Arguments = json.RawMessage(arguments)
		}
		if !flags.Changed("digest") {
			shown, err := e.fetchApproval(ctx, api, id)
			if err != nil {
				return err
			}
			if err := e.confirmApproval(shown); err != nil {
				return err
			}
			body.Digest = shown.Digest
		}
		reply, err := api.Approve(ctx, id, body)
		return printReply(e, reply, err, e.showDecided)
	})
	return cmd
}

// confirmApproval allows the approval of a call that was shown just now: only of a call of ordinary risk, and after a
// person at a terminal confirmed it.
func (e *Env) confirmApproval(a *client.Approval) error {
	switch risk := value(a.Risk); {
	case a.Status != "pending": // the server refuses
		return nil
	case risk != "standard":
		return misusef("nothing was approved: the risk of this call is not standard%s. Read what it does, then approve it with\n  --digest %s",
			inBrackets(new(formatRisk(risk))), a.Digest)
	case e.json || !e.Terminal:
		return misusef("nothing was approved. Read what the call does, then approve it with\n  --digest %s", a.Digest)
	}
	if err := write(e.Stdout, "\nApprove this call? Type yes: "); err != nil {
		return err
	}
	answer, err := bufio.NewReader(e.Stdin).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the confirmation: %w", err)
	}
	if strings.TrimSpace(answer) != "yes" {
		return misusef("nothing was approved: the answer was not yes")
	}
	return nil
}

func newReviewCmd(e *Env) *cobra.Command {
	var note string
	cmd := &cobra.Command{
		Use: "review ID", Short: "Record that you reviewed an approval that one person gave alone",
		Example: `  holdpoint approvals review 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11 --note "was right"`,
		RunE: e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			reply, err := api.ReviewBreakGlass(ctx, args[0], client.BreakGlassReview{Note: given(note)})
			return printReply(e, reply, err, func(*client.Approval) error { return write(e.Stdout, "Your review is recorded.\n") })
		}),
	}
	cmd.Flags().StringVar(&note, "note", "", "note for the record")
	return cmd
}

func newRejectCmd(e *Env) *cobra.Command {
	var digest, reason string
	var question int64
	cmd := &cobra.Command{
		Use: "reject ID --reason TEXT", Short: "Reject a call; its agent is told the reason",
		Long: `Reject a call. Its agent is told the reason.

With --question you reject a question that the skill's server asked after the approval. The server
gets a refusal without data. The reason is optional then, and shown to people only.`,
		Example: `  holdpoint approvals reject 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11 --reason "use the test folder"
  holdpoint approvals reject 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11 --question 1 --digest 88ab…`,
	}
	flags := cmd.Flags()
	flags.StringVar(&digest, "digest", "", "digest of the approval as it was shown to you")
	flags.StringVar(&reason, "reason", "", "why, and what to do instead")
	flags.Int64Var(&question, "question", 0, "number of the server's question to decide")
	cmd.RunE = e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
		id := args[0]
		if flags.Changed("question") {
			if err := checkQuestion(id, question, digest); err != nil {
				return err
			}
			reply, err := api.RejectQuestion(ctx, id, question, client.DecideQuestionRequest{Digest: digest, Note: given(reason)})
			return printReply(e, reply, err, e.showDecidedQuestion)
		}
		if strings.TrimSpace(reason) == "" {
			return misusef("give the agent a --reason")
		}
		if !flags.Changed("digest") {
			shown, err := e.fetchApproval(ctx, api, id)
			if err != nil {
				return err
			}
			digest = shown.Digest
		}
		reply, err := api.Reject(ctx, id, client.RejectRequest{Digest: digest, Reason: reason})
		return printReply(e, reply, err, e.showDecided)
	})
	return cmd
}

// fetchApproval fetches an approval to decide about, and shows it unless --json is given.
func (e *Env) fetchApproval(ctx context.Context, api *client.Client, id string) (*client.Approval, error) {
	shown, err := client.Value(api.GetApproval(ctx, id))
	if err == nil && !e.json {
		err = e.showApproval(&shown)
	}
	return &shown, err
}

func (e *Env) showDecided(a *client.Approval) error {
	if a.Status == "pending" && len(a.Policies) > 0 && a.Edit == nil {
		return write(e.Stdout, "\nYour vote is recorded. The call waits for more votes until "+formatTime(&a.Deadline)+".\n")
	}
	if a.Status == "pending" {
		return write(e.Stdout, "\nYour edit is recorded. Another reviewer has to approve it by "+formatTime(&a.Deadline)+".\n")
	}
	return write(e.Stdout, "\nThe call is "+escapeCell(a.Status)+".\n")
}

// checkQuestion checks the flags of a decision about a question. Its digest says which question and answer were shown.
func checkQuestion(id string, number int64, digest string) error {
	switch {
	case number < 1:
		return misusef("--question: must be the number of a question, from 1 on")
	case digest == "":
		return misusef("give the --digest that is shown with the question: holdpoint approvals show %s", id)
	}
	return nil
}

func (e *Env) showDecidedQuestion(q *client.Question) error {
	return write(e.Stdout, escapeCell(formatQuestionStatus(q.Status))+".\n")
}

func (e *Env) showQuestion(q *client.Question) error {
	var text strings.Builder
	fmt.Fprintf(&text, "\nQuestion %d of the server: %s\n\n", q.Number, escapeCell(q.Method))
	for _, part := range []struct {
		title string
		value json.RawMessage
	}{{"", q.Params}, {"The client's answer:\n\n", q.Answer}, {"The client's error:\n\n", q.Error}} {
		if orEmpty(part.value) != "" {
			text.WriteString(part.title + Visible(prettyJSON(part.value)) + "\n\n")
		}
	}
	if err := write(e.Stdout, text.String()); err != nil {
		return err
	}
	pairs := []string{"Question", formatQuestionStatus(q.Status)}
	if q.Deadline != nil {
		pairs = append(pairs, "Deadline", e.formatDeadline(*q.Deadline))
	}
	pairs = append(pairs, decisionFields(q.Decision)...)
	return e.printFields(append(pairs, "Digest", value(q.Digest))...)
}

// questionStatuses explains the statuses of a question.
var questionStatuses = map[string]string{
	"asked":      "asked: the client may answer",
	"pending":    "pending: a reviewer decides",
	"answered":   "answered: the server got the answer",
	"declined":   "declined: the client refused, and the server got no data",
	"unanswered": "unanswered: the client did not answer in time",
	"rejected":   "rejected: the server got a refusal without data",
	"expired":    "expired: no reviewer decided in time, and the server got a refusal without data",
	"withdrawn":  "withdrawn: the server no longer waits for an answer",
}

func formatQuestionStatus(status string) string { return cmp.Or(questionStatuses[status], status) }
