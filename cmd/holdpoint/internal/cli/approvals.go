package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/client"
)

func newApprovalsCmd(e *Env) *cobra.Command {
	return group("approvals", "The queue of calls that wait for a decision",
		newApprovalsListCmd(e), newQuestionsCmd(e), newApprovalsShowCmd(e), newApproveCmd(e), newRejectCmd(e), newExtendCmd(e))
}

type approvalView struct {
	ID            string          `json:"id"`
	Status        string          `json:"status"`
	Agent         string          `json:"agent"`
	Skill         string          `json:"skill"`
	Tool          string          `json:"tool"`
	Arguments     json.RawMessage `json:"arguments"`
	Files         []fileView      `json:"files"`
	Request       *outgoingView   `json:"request"`
	Digest        string          `json:"digest"`
	ToolPin       string          `json:"tool_pin"`
	Principal     *string         `json:"principal"`
	Person        *personName     `json:"principal_person"`
	CreatedAt     time.Time       `json:"created_at"`
	Deadline      time.Time       `json:"deadline"`
	ApprovedUntil *time.Time      `json:"approved_until"`
	Rule          string          `json:"rule"`
	Team          *string         `json:"team"`
	Edited        bool            `json:"edited"`
	Edit          *struct {
		By        string          `json:"by"`
		ByPerson  *personName     `json:"by_person"`
		At        time.Time       `json:"at"`
		Submitted json.RawMessage `json:"submitted_arguments"`
	} `json:"edit"`
	Reviewers *bool          `json:"reviewers"`
	Risk      string         `json:"risk"`
	Questions []questionView `json:"questions"`
	Decision  *decisionView  `json:"decision"`
}

func newApprovalsListCmd(e *Env) *cobra.Command {
	var p page
	status := "pending"
	cmd := &cobra.Command{
		Use: "list", Short: "List approvals, newest first", Args: usage(cobra.NoArgs),
		Example: "  holdpoint approvals list\n  holdpoint approvals list --status all",
		RunE: func(cmd *cobra.Command, _ []string) error {
			query := p.query()
			if status != "all" {
				query.Set("status", status)
			}
			text, err := e.get(cmd.Context(), "approvals", query)
			if err != nil {
				return err
			}
			return printList(e, text, []string{"ID", "STATUS", "LEFT", "AGENT", "FOR", "TOOL", "ARGUMENTS", "DECIDED BY", "WITH", "FROM"},
				func(a approvalView) []string {
					left := ""
					if a.Status == "pending" {
						left = e.remaining(a.Deadline)
					}
					d := a.Decision
					if d == nil {
						d = &decisionView{}
					}
					return []string{
						a.ID, a.Status, left, a.Agent, personOr(a.Person, a.Principal).short(), a.Skill + ": " + a.Tool, clipped(string(a.Arguments), 60),
						personOr(d.ByPerson, d.By).short(), d.Credential.words(), value(d.Address),
					}
				})
		},
	}
	cmd.Flags().StringVar(&status, "status", status, "pending, approved, rejected, expired, cancelled or all")
	p.bind(cmd)
	return cmd
}

func (e *Env) fetchApproval(cmd *cobra.Command, id string) (json.RawMessage, approvalView, error) {
	text, err := e.get(cmd.Context(), "approvals/"+client.Segment(id), nil)
	if err != nil {
		return nil, approvalView{}, err
	}
	found, err := decode[approvalView](text)
	return text, found, err
}

func newApprovalsShowCmd(e *Env) *cobra.Command {
	var preview bool
	cmd := &cobra.Command{
		Use: "show ID", Short: "Show what an approval is about", Args: usage(cobra.ExactArgs(1)),
		Example: "  holdpoint approvals show 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11",
		RunE: func(cmd *cobra.Command, args []string) error {
			if preview {
				return e.showPreview(cmd, args[0])
			}
			text, found, err := e.fetchApproval(cmd, args[0])
			if err != nil {
				return err
			}
			if e.json {
				return e.printJSON(text)
			}
			return e.showApproval(found)
		},
	}
	cmd.Flags().BoolVar(&preview, "preview", false, "show the present state of what the call would change instead (HTTP APIs)")
	return cmd
}

func (e *Env) showApproval(a approvalView) error {
	sentence := fmt.Sprintf("%s wants %s: %s", a.Agent, a.Skill, a.Tool)
	if person := personOr(a.Person, a.Principal); person != nil {
		sentence += " on behalf of " + person.full()
	}
	if err := write(e.Stdout, cell(sentence)+"\n\n"+Visible(prettyJSON(a.Arguments))+"\n\n"+a.Request.String()); err != nil {
		return err
	}
	pairs := []string{"Approval", a.ID, "Status", a.Status, "Risk", riskWords(a.Risk), "Parked because", a.Rule, "Asked", moment(&a.CreatedAt), "Team", value(a.Team)}
	pairs = append(pairs, filePairs(a.Files)...)
	if a.Reviewers != nil && !*a.Reviewers {
		pairs = append(pairs, "Reviewers", "nobody is known who may decide about this call")
	}
	switch {
	case a.Edit != nil:
		by := personOr(a.Edit.ByPerson, &a.Edit.By).full() + ", at " + moment(&a.Edit.At)
		if a.Status == "pending" {
			by += ". Another reviewer has to approve these arguments"
		}
		pairs = append(pairs, "Edited by", by, "The agent wrote", clipped(string(a.Edit.Submitted), 2000))
	case a.Edited:
		pairs = append(pairs, "Edited", "approved with these arguments, not with those that the call was made with")
	}
	if a.Status == "pending" {
		pairs = append(pairs, "Deadline", moment(&a.Deadline)+" (in "+e.remaining(a.Deadline)+")")
	}
	pairs = append(pairs, a.Decision.pairs()...)
	pairs = append(pairs, "Valid until", moment(a.ApprovedUntil))
	if err := e.fields(append(pairs, "Digest", a.Digest, "Tool's pin", a.ToolPin)...); err != nil {
		return err
	}
	for i := range a.Questions {
		if err := e.showQuestion(&a.Questions[i]); err != nil {
			return err
		}
	}
	return nil
}

func riskWords(risk string) string {
	switch risk {
	case "high":
		return "high: an operator marked this tool"
	case "destructive":
		return "destructive: the server says so"
	}
	return risk
}

// confirmApproval lets a call be approved by the digest that was shown only. At a terminal a person may confirm a call
// of ordinary risk right away.
func (e *Env) confirmApproval(a approvalView) error {
	switch {
	case a.Status != "pending": // the server refuses
		return nil
	case a.Risk != "standard":
		return misuse("nothing was approved: this call's risk is not ordinary (%s). Read what it does, then approve it with\n  --digest %s",
			riskWords(a.Risk), a.Digest)
	case e.json || !e.Terminal:
		return misuse("nothing was approved. Read what the call does, then approve it with\n  --digest %s", a.Digest)
	}
	if err := write(e.Stdout, "\nApprove this call? Type yes: "); err != nil {
		return err
	}
	answer, err := bufio.NewReader(e.Stdin).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the confirmation: %w", err)
	}
	if strings.TrimSpace(answer) != "yes" {
		return misuse("nothing was approved: want yes")
	}
	return nil
}

func newApproveCmd(e *Env) *cobra.Command {
	var digest, note, arguments string
	var question int
	cmd := &cobra.Command{
		Use: "approve ID", Short: "Approve a call, exactly as it is shown, or with other arguments",
		Long: `Approve a call by the digest that "approvals show" shows: if anything about the call has changed since, the server refuses.

Without --digest the call is shown. At a terminal you are then asked to confirm it; elsewhere nothing is approved. A call of a
tool that an operator marked as of high risk, or that its server calls destructive, always takes --digest.

With --args the call is sent with these arguments instead. They are checked against the tool's schema, what
differs is recorded, and the agent is told. Where edits of the skill need a second reviewer (by default, tools of
high risk), the call waits on until another reviewer approves the edit. That reviewer sees the edited arguments
and approves without --args. The agent's own arguments, given with --args, discard the edit and are approved.

With --question the decision is about what the skill's server asked after the approval: about the question with the
client's answer, or about a URL before the client opens it. It always takes the digest that "holdpoint approvals show"
shows with the question.`,
		Example: `  holdpoint approvals approve 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11 --digest 5f0c… --note "checked with Rita"
  holdpoint approvals approve 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11 --digest 5f0c… --args '{"path":"/srv/shared/test.txt"}'
  holdpoint approvals approve 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11 --question 1 --digest 88ab…`,
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("question") {
				if arguments != "" {
					return misuse("--args belongs to calls: a question is approved with the answer that the client gave")
				}
				return e.decideQuestion(cmd, args[0], question, "approve", digest, note)
			}
			body := map[string]any{}
			if note != "" {
				body["note"] = note
			}
			if arguments != "" {
				if !json.Valid([]byte(arguments)) {
					return misuse("--args: want a JSON object")
				}
				body["arguments"] = json.RawMessage(arguments)
			}
			return e.decide(cmd, args[0], "approve", digest, e.confirmApproval, body)
		},
	}
	cmd.Flags().StringVar(&digest, "digest", "", "of the approval as it was shown to you")
	cmd.Flags().StringVar(&note, "note", "", "for the record")
	cmd.Flags().StringVar(&arguments, "args", "", "other arguments, as JSON")
	cmd.Flags().IntVar(&question, "question", 0, "the number of a question of the call's server, to decide about that")
	return cmd
}

func newExtendCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "extend ID", Short: "Give a call more time to be decided",
		Long: `Move the deadline of a call by the time that it was given at first. This is possible three times for each call, and
recorded.`,
		Example: "  holdpoint approvals extend 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11",
		Args:    usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := e.post(cmd.Context(), "approvals/"+client.Segment(args[0])+"/extend", nil)
			if err != nil {
				return err
			}
			if e.json {
				return e.printJSON(text)
			}
			extended, err := decode[approvalView](text)
			if err != nil {
				return err
			}
			return write(e.Stdout, "The call waits until "+moment(&extended.Deadline)+" (in "+e.remaining(extended.Deadline)+").\n")
		},
	}
}

func newRejectCmd(e *Env) *cobra.Command {
	var digest, reason string
	var question int
	cmd := &cobra.Command{
		Use: "reject ID --reason TEXT", Short: "Reject a call; its agent is told the reason",
		Long: `Reject a call. Its agent is told the reason.

With --question the decision is about what the skill's server asked after the approval. The server gets a refusal
without data. The reason is optional then, and for people only.`,
		Example: `  holdpoint approvals reject 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11 --reason "use the test folder"
  holdpoint approvals reject 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11 --question 1 --digest 88ab…`,
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("question") {
				return e.decideQuestion(cmd, args[0], question, "reject", digest, reason)
			}
			if strings.TrimSpace(reason) == "" {
				return misuse("give the agent a --reason")
			}
			return e.decide(cmd, args[0], "reject", digest, func(approvalView) error { return nil }, map[string]any{"reason": reason})
		},
	}
	cmd.Flags().StringVar(&digest, "digest", "", "of the approval as it was shown to you")
	cmd.Flags().StringVar(&reason, "reason", "", "why, and what to do instead")
	cmd.Flags().IntVar(&question, "question", 0, "the number of a question of the call's server, to decide about that")
	return cmd
}

// decide sends a decision. One without a digest is about what is shown now, if may allows it.
func (e *Env) decide(cmd *cobra.Command, id, action, digest string, may func(approvalView) error, body map[string]any) error {
	if !cmd.Flags().Changed("digest") {
		_, shown, err := e.fetchApproval(cmd, id)
		if err != nil {
			return err
		}
		if !e.json {
			if err := e.showApproval(shown); err != nil {
				return err
			}
		}
		if err := may(shown); err != nil {
			return err
		}
		digest = shown.Digest
	}
	body["digest"] = digest
	text, err := e.post(cmd.Context(), "approvals/"+client.Segment(id)+"/"+action, body)
	if err != nil {
		return err
	}
	if e.json {
		return e.printJSON(text)
	}
	decided, err := decode[approvalView](text)
	if err != nil {
		return err
	}
	if decided.Status == "pending" {
		return write(e.Stdout, "\nYour edit is recorded. Another reviewer has to approve it by "+moment(&decided.Deadline)+".\n")
	}
	return write(e.Stdout, "\nThe call is "+cell(decided.Status)+".\n")
}
