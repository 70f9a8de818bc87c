package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// printJSON prints what the API answered, byte for byte.
func (e *Env) printJSON(text json.RawMessage) error {
	return write(e.Stdout, strings.TrimRight(string(text), "\n")+"\n")
}

func write(w io.Writer, text string) error {
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

// notef tells something beside the output.
func (e *Env) notef(format string, args ...any) {
	fmt.Fprintln(e.Stderr, Visible(fmt.Sprintf(format, args...)))
}

// table prints rows in columns. Cells are made safe here.
func (e *Env) table(header []string, rows [][]string) error {
	w := tabwriter.NewWriter(e.Stdout, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{header}, rows...) {
		cells := make([]string, len(row))
		for i, text := range row {
			if cells[i] = cell(text); cells[i] == "" {
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

// fields prints one thing, a line for each of its fields. Empty ones are left out.
func (e *Env) fields(pairs ...string) error {
	w := tabwriter.NewWriter(e.Stdout, 0, 0, 2, ' ', 0)
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			fmt.Fprintf(w, "%s\t%s\n", pairs[i], cell(pairs[i+1]))
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

// list is the shape of the API's lists.
type list[T any] struct {
	Items      []T     `json:"items"`
	NextCursor *string `json:"next_cursor"`
}

func decode[T any](text json.RawMessage) (T, error) {
	var v T
	if err := json.Unmarshal(text, &v); err != nil {
		return v, fmt.Errorf("understand the server's answer: %w", err)
	}
	return v, nil
}

// printList prints a list: as it came with --json, else as a table.
func printList[T any](e *Env, text json.RawMessage, header []string, row func(T) []string) error {
	if e.json {
		return e.printJSON(text)
	}
	found, err := decode[list[T]](text)
	if err != nil {
		return err
	}
	rows := make([][]string, len(found.Items))
	for i, item := range found.Items {
		rows[i] = row(item)
	}
	if err := e.table(header, rows); err != nil {
		return err
	}
	if found.NextCursor != nil && *found.NextCursor != "" {
		e.notef("There is more: --cursor %s", *found.NextCursor)
	}
	return nil
}

// moment is a time as people read it, in their own zone.
func moment(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.Local().Format("2006-01-02 15:04:05") //nolint:gosmopolitan // for the person at this terminal
}

// remaining is how long it is to a deadline.
func (e *Env) remaining(deadline time.Time) string {
	left := deadline.Sub(e.Now()).Round(time.Second)
	if left <= 0 {
		return "over"
	}
	return left.String()
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// encoded is a value as JSON, with nothing in it escaped that need not be.
func encoded(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, fmt.Errorf("encode output: %w", err)
	}
	return b.Bytes(), nil
}

// prettyJSON indents JSON and leaves its values as they are written.
func prettyJSON(text json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Indent(&b, text, "", "  "); err != nil {
		return string(text)
	}
	return b.String()
}
