package review

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/runtime/api/rest"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/call/history"
)

// The formats of exports: JSON Lines, each line as lists have it, with nothing left out; and CSV (RFC 4180) for
// spreadsheets.
const (
	FormatJSONLines = "jsonl"
	FormatCSV       = "csv"
)

// download is an export that is allowed, audited and started: errors before the first byte are already handled.
type download struct {
	name        string // of a file
	contentType string
	write       func(io.Writer) error // page by page: it never holds more than one
}

// ServeHTTP sends the export. After an error it breaks the connection, so that no client takes a part for the whole.
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

// startExport starts an export for a person who may see all calls.
func (h *callHandlers) startExport(ctx context.Context, by audit.Actor, f history.Filter, format string) (http.Handler, error) {
	if format != FormatCSV && format != FormatJSONLines {
		return nil, rest.InvalidField("query.format", "must be %s or %s", FormatCSV, FormatJSONLines)
	}
	export, err := h.history.Export(ctx, by, f, format)
	if err != nil {
		return nil, err
	}
	page, err := export.Next(ctx)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return newDownload("calls", format, func(w io.Writer) error {
		write := func(w io.Writer, c Call) error { return rest.WriteLine(w, c) }
		if format == FormatCSV {
			table := csv.NewWriter(w)
			table.UseCRLF = true
			if err := writeRow(table, csvHeader()); err != nil {
				return err
			}
			write = func(_ io.Writer, c Call) error { return writeRow(table, csvRow(&c)) }
		}
		for ; err == nil; page, err = export.Next(ctx) {
			if err := h.writeCalls(ctx, w, page, write); err != nil {
				return exportError(ctx, h.log, "calls", err)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		return exportError(ctx, h.log, "calls", err)
	}), nil
}

// exportError logs an error of an export unless the client is gone.
func exportError(ctx context.Context, log *slog.Logger, what string, err error) error {
	if ctx.Err() == nil {
		log.ErrorContext(ctx, "export", "what", what, "err", err)
	}
	return fmt.Errorf("export %s: %w", what, err)
}

// writeCalls writes a page. It reads one whole call at a time.
func (h *callHandlers) writeCalls(ctx context.Context, w io.Writer, page []call.Call, write func(io.Writer, Call) error) error {
	view, err := h.callViewsFor(ctx, true, page)
	if err != nil {
		return err
	}
	for _, c := range page {
		if err := h.history.ReadWhole(ctx, &c); err != nil {
			return err
		}
		if err := write(w, view(c)); err != nil {
			return err
		}
	}
	return nil
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
		c.ID.String(), formatTime(&c.CreatedAt), formatTime(c.FinishedAt), string(c.Status), textOf(c.Code), textOf(c.Failure), textOf(c.Effect),
		textOf(c.Message), c.Agent, textOf(c.Principal), conversation, c.Skill, c.Tool, c.Name, strconv.FormatBool(c.Gated),
	}
	if d := c.Decision; d != nil {
		row = append(row, d.Outcome, textOf(d.By), formatTime(&d.At), d.Note)
	} else {
		row = append(row, "", "", "", "")
	}
	row = append(row, compactJSON(c.Arguments), compactJSON(c.Result))
	if r := c.Resolution; r != nil {
		row = append(row, r.Outcome, textOf(r.By), formatTime(&r.At), r.Note)
	} else {
		row = append(row, "", "", "", "")
	}
	row = append(row, personCells(c.PrincipalPerson)...)
	if d := c.Decision; d != nil {
		row = append(row, personCells(d.ByPerson)...)
		with := cmp.Or(d.Credential, &rest.Credential{})
		return append(row, with.Kind, textOf(with.ID), textOf(d.Address))
	}
	return append(row, "", "", "", "", "", "")
}

func personCells(p *rest.PersonName) []string {
	if p == nil {
		return []string{"", "", ""}
	}
	return []string{p.ID.String(), p.Issuer, p.Subject}
}

func formatTime(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

func textOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func compactJSON(raw json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return string(raw)
	}
	return b.String()
}

// writeRow writes cells that no spreadsheet takes for formulas.
func writeRow(w *csv.Writer, cells []string) error {
	for i, cell := range cells {
		// An apostrophe keeps a spreadsheet from evaluating the text.
		if cell != "" && strings.ContainsRune("=+-@\t\r\n＝＋－＠", []rune(cell)[0]) {
			cells[i] = "'" + cell
		}
	}
	if err := w.Write(cells); err != nil {
		return err
	}
	w.Flush() // into the response, which buffers by itself
	return w.Error()
}

type exportCallsInput struct {
	CallQuery
	Format string `query:"format" enum:"csv,jsonl" default:"jsonl"`
}

func (h *callHandlers) exportCalls(ctx context.Context, input *exportCallsInput) (*huma.StreamResponse, error) {
	filter, err := h.callFilter(ctx, input.CallQuery)
	if err != nil {
		return nil, err
	}
	return streamExport(h.startExport(ctx, rest.CallerOf(ctx).Actor(), filter, input.Format))
}

func streamExport(export http.Handler, err error) (*huma.StreamResponse, error) {
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(ctx huma.Context) {
		r, w := humago.Unwrap(ctx)
		export.ServeHTTP(w, r)
	}}, nil
}
