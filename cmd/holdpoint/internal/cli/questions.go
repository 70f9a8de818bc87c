package cli

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/client"
)

// questionView is what a skill's server asked after the approval of a call.
type questionView struct {
	ApprovalID string          `json:"approval_id"`
	Number     int             `json:"number"`
	Method     string          `json:"method"`
	Params     json.RawMessage `json:"params"`
	Status     string          `json:"status"`
	Review     *string         `json:"review"`
	Answer     json.RawMessage `json:"answer"`
	Error      json.RawMessage `json:"error"`
	Digest     *string         `json:"digest"`
	Deadline   *time.Time      `json:"deadline"`
	Decision   *decisionView   `json:"decision"`
}

func newQuestionsCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "questions", Short: "List questions of skills' servers that wait for a decision, the most urgent first", Args: usage(cobra.NoArgs),
		Long: `List what skills' servers asked after the approval of their calls and a reviewer has to decide about. Look at one
with "holdpoint approvals show ID", and decide with "holdpoint approvals approve ID --question N --digest D".`,
		Example: "  holdpoint approvals questions",
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := e.get(cmd.Context(), "questions", nil)
			if err != nil {
				return err
			}
			return printList(e, text, []string{"ID", "QUESTION", "LEFT", "ASKS", "ANSWER"}, func(q questionView) []string {
				left := ""
				if q.Deadline != nil {
					left = e.remaining(*q.Deadline)
				}
				return []string{q.ApprovalID, strconv.Itoa(q.Number), left, clipped(q.Method+" "+string(q.Params), 60), clipped(jsonOrNothing(q.Answer), 60)}
			})
		},
	}
}

// jsonOrNothing is "" for null.
func jsonOrNothing(text json.RawMessage) string {
	if string(text) == "null" {
		return ""
	}
	return string(text)
}

// questionWords say where a question stands.
func questionWords(status string) string {
	switch status {
	case "asked":
		return "asked: the client may answer"
	case "pending":
		return "pending: a reviewer decides"
	case "answered":
		return "answered: the server got the answer"
	case "declined":
		return "declined: the client refused, and the server got no data"
	case "unanswered":
		return "unanswered: the client did not answer in time"
	case "rejected":
		return "rejected: the server got a refusal without data"
	case "expired":
		return "expired: nobody decided in time, and the server got a refusal without data"
	case "withdrawn":
		return "withdrawn: nobody needs an answer any more"
	}
	return status
}

func (e *Env) showQuestion(q *questionView) error {
	text := fmt.Sprintf("\nQuestion %d of the server: %s\n\n", q.Number, cell(q.Method))
	if params := jsonOrNothing(q.Params); params != "" {
		text += Visible(prettyJSON(q.Params)) + "\n\n"
	}
	if answer := jsonOrNothing(q.Answer); answer != "" {
		text += "The client's answer:\n\n" + Visible(prettyJSON(q.Answer)) + "\n\n"
	}
	if failure := jsonOrNothing(q.Error); failure != "" {
		text += "The client's error:\n\n" + Visible(prettyJSON(q.Error)) + "\n\n"
	}
	if err := write(e.Stdout, text); err != nil {
		return err
	}
	pairs := []string{"Question", questionWords(q.Status)}
	if q.Deadline != nil {
		pairs = append(pairs, "Deadline", moment(q.Deadline)+" (in "+e.remaining(*q.Deadline)+")")
	}
	pairs = append(pairs, q.Decision.pairs()...)
	if q.Digest != nil {
		pairs = append(pairs, "Digest", *q.Digest)
	}
	return e.fields(pairs...)
}

// decideQuestion decides about a question and answer that were shown before: their digest says which.
func (e *Env) decideQuestion(cmd *cobra.Command, id string, number int, action, digest, note string) error {
	switch {
	case number < 1:
		return misuse("--question: want the number of a question, from 1 on")
	case digest == "":
		return misuse("give the --digest that is shown with the question: holdpoint approvals show %s", id)
	}
	body := map[string]any{"digest": digest}
	if note != "" {
		body["note"] = note
	}
	path := fmt.Sprintf("approvals/%s/questions/%d/%s", client.Segment(id), number, action)
	text, err := e.post(cmd.Context(), path, body)
	if err != nil {
		return err
	}
	if e.json {
		return e.printJSON(text)
	}
	decided, err := decode[questionView](text)
	if err != nil {
		return err
	}
	return write(e.Stdout, cell(questionWords(decided.Status))+".\n")
}
