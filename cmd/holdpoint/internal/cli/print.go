package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/holdpoint/holdpoint/internal/client"
)

// printReply prints an answer: with --json as it came, else by show. It takes the results of a request.
func printReply[T any](e *Env, reply client.Reply[T], err error, show func(*T) error) error {
	if err != nil {
		return err
	}
	if e.json {
		return e.printJSON(reply)
	}
	v, err := reply.Value()
	if err != nil {
		return err
	}
	return show(&v)
}

// printList prints a list: with --json as it came, else as a table. It takes the results of a request.
func printList[T any](e *Env, reply client.Reply[client.List[T]], err error, header []string, row func(*T) []string) error {
	return printReply(e, reply, err, func(list *client.List[T]) error {
		rows := make([][]string, len(list.Items))
		for i := range list.Items {
			rows[i] = row(&list.Items[i])
		}
		if err := e.printTable(header, rows); err != nil {
			return err
		}
		if value(list.NextCursor) != "" {
			e.notef("There is more: --cursor %s", *list.NextCursor)
		}
		return nil
	})
}

// printDone prints that a request was done, with --json its answer. It takes the results of a request.
func printDone[T any](e *Env, reply client.Reply[T], err error, done string) error {
	switch {
	case err != nil:
		return err
	case e.json:
		return e.printJSON(reply)
	}
	return write(e.Stdout, escapeCell(done)+"\n")
}

// printDeleted prints that something was deleted. It takes the result of the request.
func (e *Env) printDeleted(err error, done string) error {
	return printDone(e, client.Reply[struct{}]("{}"), err, done)
}

// printSecret prints a new credential. Nothing else goes to the standard output.
func printSecret[T any](e *Env, reply client.Reply[T], err error, note string, secret func(*T) string) error {
	return printReply(e, reply, err, func(made *T) error {
		e.notef("%s", note)
		return write(e.Stdout, secret(made)+"\n")
	})
}

// printPretty prints one thing as the API shows it, indented unless --json is given. It takes the results of a request.
func printPretty[T any](e *Env, reply client.Reply[T], err error) error {
	switch {
	case err != nil:
		return err
	case e.json:
		return e.printJSON(reply)
	}
	return write(e.Stdout, Visible(prettyJSON(reply))+"\n")
}

// printJSON prints an answer of the API byte for byte.
func (e *Env) printJSON(text []byte) error {
	return write(e.Stdout, strings.TrimRight(string(text), "\n")+"\n")
}

// printEncoded prints a value as JSON, without escaping characters for HTML.
func (e *Env) printEncoded(v any) error {
	encoder := json.NewEncoder(e.Stdout)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

func write(w io.Writer, text string) error {
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

// notef prints a note on the standard error.
func (e *Env) notef(format string, args ...any) {
	fmt.Fprintln(e.Stderr, Visible(fmt.Sprintf(format, args...)))
}

// noteProblems notes the skills whose tools are missing from a list.
func (e *Env) noteProblems(problems []client.SkillProblem) {
	for _, p := range problems {
		e.notef("The tools of %s are missing (%s): %s", p.Skill, p.Kind, p.Error)
	}
}

// printTable prints rows in columns, with hidden characters made visible.
func (e *Env) printTable(header []string, rows [][]string) error {
	w := tabwriter.NewWriter(e.Stdout, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{header}, rows...) {
		cells := make([]string, len(row))
		for i, text := range row {
			if cells[i] = escapeCell(text); cells[i] == "" {
				cells[i] = "-"
			}
		}
		if _, err := fmt.Fprintln(w, strings.Join(cells, "\t")); err != nil {
			return fmt.Errorf("write output: %w", err)
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

// printFields prints names and values in turn, a pair a line. Pairs without a value are left out.
func (e *Env) printFields(pairs ...string) error {
	w := tabwriter.NewWriter(e.Stdout, 0, 0, 2, ' ', 0)
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			fmt.Fprintf(w, "%s\t%s\n", pairs[i], escapeCell(pairs[i+1]))
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

// value returns the zero value for nil.
func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// given returns nil for "", so that a request leaves the member out.
func given(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// givenList returns nil for an empty list, so that a request leaves the member out.
func givenList(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	return list
}

// count formats a number.
func count(n int64) string { return strconv.FormatInt(n, 10) }

// formatTime formats a time in the reader's time zone.
func formatTime(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.Local().Format("2006-01-02 15:04:05") //nolint:gosmopolitan // for the person at this terminal
}

// formatRemaining formats the time that is left until a deadline.
func (e *Env) formatRemaining(deadline time.Time) string {
	left := deadline.Sub(e.Now()).Round(time.Second)
	if left <= 0 {
		return "over"
	}
	return left.String()
}

// formatDeadline formats a deadline and the time that is left.
func (e *Env) formatDeadline(deadline time.Time) string {
	return formatTime(&deadline) + " (in " + e.formatRemaining(deadline) + ")"
}

// prettyJSON indents JSON without changing its values.
func prettyJSON(text []byte) string {
	var b bytes.Buffer
	if err := json.Indent(&b, text, "", "  "); err != nil {
		return string(text)
	}
	return b.String()
}

// orEmpty returns "" for null.
func orEmpty(text json.RawMessage) string {
	if string(text) == "null" {
		return ""
	}
	return string(text)
}

// fallbackPerson returns the person, or for a server of an older version the name alone.
func fallbackPerson(p *client.PersonName, name *string) *client.PersonName {
	if p == nil && name != nil {
		return &client.PersonName{Name: *name}
	}
	return p
}

// shortPerson names a person in a list: with subject and issuer where the name alone is ambiguous, and with warnings.
// For nil it returns "".
func shortPerson(p *client.PersonName) string {
	if p == nil {
		return ""
	}
	text := p.Name
	if p.Subject != "" && (p.Alike || p.Issuer != "holdpoint" || p.Subject != p.Name) {
		text += " (" + p.Subject + " at " + p.Issuer + ")"
	}
	return text + personWarnings(p)
}

// fullPerson names a person with id, subject and issuer.
func fullPerson(p *client.PersonName) string {
	if p == nil {
		return ""
	}
	if p.ID == "" {
		return p.Name
	}
	return p.Name + " (id " + p.ID + ", " + p.Subject + " at " + p.Issuer + ")" + personWarnings(p)
}

func personWarnings(p *client.PersonName) string {
	var notes string
	if p.Alike {
		notes += ", name looks like another's"
	}
	if p.InvitedBy != nil {
		notes += ", invited by " + *p.InvitedBy + ", not verified"
	}
	return notes
}

// formatCredential names the kind and id of a credential.
func formatCredential(c *client.Credential) string {
	if c == nil {
		return ""
	}
	return strings.TrimSpace(strings.ReplaceAll(c.Kind, "_", " ") + " " + value(c.ID))
}

// decisionFields are the lines about a decision.
func decisionFields(d *client.Decision) []string {
	if d == nil {
		return nil
	}
	by := ": the deadline passed"
	if person := fallbackPerson(d.ByPerson, d.By); person != nil {
		by = " by " + fullPerson(person)
	} else if d.Outcome != "expired" {
		by = ""
	}
	return []string{
		"Decided", d.Outcome + " at " + formatTime(&d.At) + by, "Decided with", formatCredential(d.Credential),
		"Decided from", value(d.Address), "Seen", formatSeen(d.Seen), "Note", d.Note,
	}
}

// formatSeen says what a reviewer saw before a decision.
func formatSeen(s *client.Seen) string {
	if s == nil {
		return "not measured"
	}
	text := fmt.Sprintf("%d of %d arguments, %d unusual, %.0f s on the screen", s.Rows, s.Of, s.Unusual, s.Seconds)
	if s.SecondStep {
		text += ", confirmed in a second step"
	}
	return text
}

// formatTeams names the team that calls go to first, and those that they escalate to.
func formatTeams(team, escalateTo *string, steps []client.EscalationStep) string {
	var names []string
	if value(team) != "" {
		names = append(names, *team)
	}
	if value(escalateTo) != "" {
		names = append(names, "later "+*escalateTo)
	}
	for _, s := range steps {
		names = append(names, "after "+s.After+" "+strings.Join(slices.Concat(s.Teams, s.People), ", "))
	}
	return strings.Join(names, ", ")
}

// formatSteps lists the steps of an escalation with their times.
func formatSteps(steps []client.Step) string {
	list := make([]string, len(steps))
	for i, s := range steps {
		list[i] = formatTime(&s.At) + " " + strings.Join(slices.Concat(s.Teams, s.People), ", ")
		if s.Taken {
			list[i] += " (asked)"
		}
	}
	return strings.Join(list, "; ")
}
