// Package demo owns the parts of `holdpoint demo`: two small skills served over MCP, one of them protected, with the
// authorization server that issues tokens for it, a script that answers as the agent's model, and the agent's conversation
// on the terminal. Nothing outside the demo depends on it.
package demo

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The names of the demo's skills, and where [Skills.Mount] serves them.
const (
	InboxSkill = "inbox" // read-only, auto-approved, open to all
	DriveSkill = "drive" // writes files, gated, protected
	InboxPath  = "/demo/skills/inbox/mcp"
	DrivePath  = "/demo/skills/drive/mcp"

	// IssuerPath is where the drive's authorization server is, and ClientID the id of Holdpoint's client there.
	IssuerPath = "/demo/auth"
	ClientID   = "holdpoint"
	// clientKeys is where Holdpoint publishes its keys.
	clientKeys = "/oauth/jwks.json"

	// The drive's scopes.
	readScope  = "drive.read"
	writeScope = "drive.write"
)

// Skills are the demo's skill servers.
type Skills struct {
	// Dir is where save_csv writes.
	Dir string
	// Version is the version that the servers report.
	Version string
	// URL is the origin of the endpoints and of Holdpoint.
	URL string
	Now func() time.Time
	// Say writes a line to the terminal.
	Say func(line string)
}

// Invoice is an invoice in the demo's inbox.
type Invoice struct {
	ID   string `json:"id"`
	Rows []Row  `json:"rows"`
}

// Row is one line of an invoice.
type Row struct {
	Date   string  `json:"date" jsonschema:"day of the invoice line, YYYY-MM-DD"`
	Amount float64 `json:"amount" jsonschema:"amount in the invoice's currency"`
	Vendor string  `json:"vendor" jsonschema:"who is to be paid"`
}

// Inbox returns the invoices of the demo.
func Inbox() []Invoice {
	return []Invoice{
		{ID: "invoice-2026-001", Rows: []Row{{"2026-01-15", 1250.00, "Northwind Traders"}, {"2026-01-16", 890.50, "Harbour Freight Office"}}},
		{ID: "invoice-2026-002", Rows: []Row{{"2026-02-03", 48.20, "Paper & Sons"}}},
		{ID: "invoice-2026-003", Rows: []Row{{"2026-02-11", 19900.00, "Northwlnd Traders"}}},
	}
}

// Mount adds the two endpoints, and the authorization server. The GET streams of clients end with ctx: they would delay
// the server's shutdown.
func (s *Skills) Mount(ctx context.Context, mux *http.ServeMux) error {
	issuer, err := NewAuthServer(AuthConfig{
		Issuer: s.URL + IssuerPath, ClientID: ClientID, ClientKeys: s.URL + clientKeys,
		Resources: map[string][]string{s.URL + DrivePath: {readScope, writeScope}},
		Now:       s.Now, Say: s.Say,
	})
	if err != nil {
		return err
	}
	issuer.Mount(mux)
	NewGuard(GuardConfig{
		Name: DriveSkill, Resource: s.URL + DrivePath, Issuer: issuer.Issuer, Scope: readScope, Call: writeScope,
		Next: newHandler(ctx, s.newDriveServer()), Now: s.Now, Say: s.Say,
	}).Mount(mux)
	mux.Handle(InboxPath, newHandler(ctx, s.newInboxServer()))
	return nil
}

func newHandler(ctx context.Context, server *mcp.Server) http.Handler {
	inner := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			request, cancel := context.WithCancel(r.Context())
			defer cancel()
			defer context.AfterFunc(ctx, cancel)()
			r = r.WithContext(request)
		}
		inner.ServeHTTP(w, r)
	})
}

type inboxOut struct {
	Invoices []Invoice `json:"invoices"`
}

func (s *Skills) newInboxServer() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "demo-inbox", Title: "Demo inbox", Version: s.Version}, nil)
	mcp.AddTool(server, &mcp.Tool{
		Name:        "list_invoices",
		Title:       "List invoices",
		Description: "List the invoices that wait in the inbox, with their lines.",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true},
	}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, inboxOut, error) {
		return nil, inboxOut{Inbox()}, nil
	})
	return server
}

type saveCSVIn struct {
	Filename string `json:"filename" jsonschema:"output filename without extension"`
	Rows     []Row  `json:"rows" jsonschema:"the lines to save"`
}

func (s *Skills) newDriveServer() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "demo-drive", Title: "Demo drive", Version: s.Version}, nil)
	mcp.AddTool(server, &mcp.Tool{
		Name:        "save_csv",
		Title:       "Save CSV",
		Description: "Save parsed invoice data as a CSV file on the shared drive.",
		Annotations: &mcp.ToolAnnotations{DestructiveHint: new(false)},
	}, func(_ context.Context, _ *mcp.CallToolRequest, in saveCSVIn) (*mcp.CallToolResult, any, error) {
		path, err := s.saveCSV(in)
		if err != nil {
			return nil, nil, err // the SDK makes it a result with isError
		}
		text := fmt.Sprintf("CSV saved to %s (%d rows)", path, len(in.Rows))
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
	})
	return server
}

var filenameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

func (s *Skills) saveCSV(in saveCSVIn) (string, error) {
	if !filenameForm.MatchString(in.Filename) {
		return "", errors.New("filename: must be letters, digits, '.', '_' and '-', at most 100")
	}
	if err := os.MkdirAll(s.Dir, 0o750); err != nil {
		return "", fmt.Errorf("save %s: %w", in.Filename, withoutPath(err))
	}
	path := filepath.Join(s.Dir, in.Filename+".csv")
	var text strings.Builder
	w := csv.NewWriter(&text)
	records := [][]string{{"date", "amount", "vendor"}}
	for _, row := range in.Rows {
		records = append(records, []string{row.Date, strconv.FormatFloat(row.Amount, 'f', 2, 64), row.Vendor})
	}
	if err := w.WriteAll(records); err != nil {
		return "", fmt.Errorf("save %s: %w", in.Filename, err)
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		return "", fmt.Errorf("save %s: %w", in.Filename, withoutPath(err))
	}
	return path, nil
}

// withoutPath drops the path from a file system error; the message names the file already.
func withoutPath(err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return pathErr.Err
	}
	return err
}

// Saved lists the files that were written.
func (s *Skills) Saved() ([]string, error) {
	entries, err := os.ReadDir(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list saved files: %w", err)
	}
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".csv") {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}
