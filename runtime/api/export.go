package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/runtime/call"
)

// The formats of exports: JSON Lines, each line as lists have it, with nothing left out; and CSV (RFC 4180) for
// spreadsheets.
const (
	FormatJSONLines = "jsonl"
	FormatCSV       = "csv"
)

// download is an export that was allowed, recorded and begun: what may go wrong before anything is sent, has not.
type download struct {
	name        string // of a file
	contentType string
	write       func(io.Writer) error // page by page: it never holds more than one
}

// ServeHTTP sends it. If something goes wrong on the way, the connection is cut: no client takes
// what it got for the whole.
func (d *download) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Content-Type", d.contentType)
	h.Set("Content-Disposition", `attachment; filename="`+d.name+`"`)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if err := d.write(w); err != nil {
		panic(http.ErrAbortHandler)
	}
}

func newDownload(what, format string, write func(io.Writer) error) *download {
	d := &download{name: what + "." + format, contentType: "application/jsonl; charset=utf-8", write: write}
	if format == FormatCSV {
		d.contentType = "text/csv; charset=utf-8; header=present"
	}
	return d
}

// ExportCalls begins an export of calls for somebody who may see all of them.
func (a *API) ExportCalls(ctx context.Context, by audit.Actor, f call.Filter, format string) (http.Handler, error) {
	if format != FormatCSV && format != FormatJSONLines {
		return nil, invalid("query.format", "expected %s or %s", FormatCSV, FormatJSONLines)
	}
	export, err := a.calls.Export(ctx, by, f, format)
	if err != nil {
		return nil, err
	}
	page, err := export.Next(ctx)
	return newDownload("calls", format, func(w io.Writer) error {
		write := writeLine[Call]
		if format == FormatCSV {
			table := csv.NewWriter(w)
			table.UseCRLF = true
			if err := writeRow(table, csvHeader()); err != nil {
				return err
			}
			write = func(_ io.Writer, c Call) error { return writeRow(table, csvRow(&c)) }
		}
		for ; err == nil; page, err = export.Next(ctx) {
			if err := a.writeCalls(ctx, w, page, write); err != nil {
				return a.exportFailed(ctx, "calls", err)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		return a.exportFailed(ctx, "calls", err)
	}), ignoreEOF(err)
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func (a *API) exportFailed(ctx context.Context, what string, err error) error {
	if ctx.Err() == nil {
		a.log.ErrorContext(ctx, "export", "what", what, "err", err)
	}
	return fmt.Errorf("export %s: %w", what, err)
}

// writeCalls writes a page. One call at a time is read whole.
func (a *API) writeCalls(ctx context.Context, w io.Writer, page []call.Call, write func(io.Writer, Call) error) error {
	view, err := a.callViewsFor(ctx, true, page)
	if err != nil {
		return err
	}
	for _, c := range page {
		if err := a.calls.Whole(ctx, &c); err != nil {
			return err
		}
		if err := write(w, view(c)); err != nil {
			return err
		}
	}
	return nil
}

// writeLine writes a value on a line of its own. Raw JSON in it loses white space, and nothing else.
func writeLine[T any](w io.Writer, v T) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}

func csvHeader() []string {
	return []string{
		"id", "created_at", "finished_at", "status", "code", "failure", "effect", "message", "agent", "principal", "conversation_id",
		"skill", "tool", "name", "gated", "decision", "decided_by", "decided_at", "decision_note", "arguments", "result",
		"resolution", "resolved_by", "resolved_at", "resolution_note",
		"principal_id", "principal_issuer", "principal_subject", "decided_by_id", "decided_by_issuer", "decided_by_subject",
		"decided_with", "decided_with_id", "decided_from",
	}
}

func csvRow(c *Call) []string {
	conversation := ""
	if c.ConversationID != nil {
		conversation = c.ConversationID.String()
	}
	row := []string{
		c.ID.String(), moment(&c.CreatedAt), moment(c.FinishedAt), string(c.Status), text(c.Code), text(c.Failure), text(c.Effect),
		text(c.Message), c.Agent, text(c.Principal), conversation, c.Skill, c.Tool, c.Name, strconv.FormatBool(c.Gated),
	}
	if d := c.Decision; d != nil {
		row = append(row, d.Outcome, text(d.By), moment(&d.At), d.Note)
	} else {
		row = append(row, "", "", "", "")
	}
	row = append(row, compact(c.Arguments), compact(c.Result))
	if r := c.Resolution; r != nil {
		row = append(row, r.Outcome, text(r.By), moment(&r.At), r.Note)
	} else {
		row = append(row, "", "", "", "")
	}
	row = append(row, personCells(c.PrincipalPerson)...)
	if d := c.Decision; d != nil {
		row = append(row, personCells(d.ByPerson)...)
		with := cmp.Or(d.Credential, &Credential{})
		return append(row, with.Kind, text(with.ID), text(d.Address))
	}
	return append(row, "", "", "", "", "", "")
}

func personCells(p *PersonName) []string {
	if p == nil {
		return []string{"", "", ""}
	}
	return []string{p.ID.String(), p.Issuer, p.Subject}
}

func moment(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return string(raw)
	}
	return b.String()
}

// writeRow writes cells that no spreadsheet takes for formulas.
func writeRow(w *csv.Writer, cells []string) error {
	for i, cell := range cells {
		cells[i] = defused(cell)
	}
	if err := w.Write(cells); err != nil {
		return err
	}
	w.Flush() // into the response, which buffers by itself
	return w.Error()
}

// defused puts an apostrophe before what a spreadsheet would calculate: it shows such a cell as text.
func defused(cell string) string {
	if cell != "" && strings.ContainsRune("=+-@\t\r\n＝＋－＠", []rune(cell)[0]) {
		return "'" + cell
	}
	return cell
}

type exportCallsInput struct {
	CallQuery
	Format string `query:"format" enum:"csv,jsonl" default:"jsonl"`
}

func (a *API) exportCalls(ctx context.Context, input *exportCallsInput) (*huma.StreamResponse, error) {
	filter, err := a.callFilter(ctx, input.CallQuery)
	if err != nil {
		return nil, err
	}
	return streamed(a.ExportCalls(ctx, callerOf(ctx).actor(), filter, input.Format))
}

func streamed(export http.Handler, err error) (*huma.StreamResponse, error) {
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(ctx huma.Context) {
		r, w := humago.Unwrap(ctx)
		export.ServeHTTP(w, r)
	}}, nil
}
