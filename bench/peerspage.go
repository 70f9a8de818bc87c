package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The files of the figures, in the module.
var (
	resultsFile = filepath.Join("bench", "results.json")
	peersFile   = filepath.Join("bench", "peers.json")
	peersPage   = filepath.Join("docs", "peers.md")
	peersChart  = filepath.Join("docs", "peers.svg")
)

// The part of the page between these lines comes from the figures.
const (
	pageBegin = "<!-- results -->\n"
	pageEnd   = "<!-- end of results -->\n"
)

// renderPeersPage writes the page from the figures that are there.
func renderPeersPage(ctx context.Context) error {
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	r, err := readReport(filepath.Join(root, peersFile))
	if err != nil {
		return err
	}
	return r.writePeersPage(root)
}

// readReport reads figures. A file that does not exist has none.
func readReport(path string) (*report, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return new(report), nil
	}
	r := new(report)
	if err == nil {
		err = json.Unmarshal(text, r)
	}
	if err != nil {
		return nil, fmt.Errorf("read figures: %w", err)
	}
	return r, nil
}

// writePeersPage writes the results into the page, and the chart.
func (r *report) writePeersPage(root string) error {
	page := filepath.Join(root, peersPage)
	text, err := os.ReadFile(page)
	if err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	shown, err := r.fillPage(string(text))
	if err != nil {
		return err
	}
	files := map[string]string{page: shown}
	if len(r.Figures) > 0 {
		files[filepath.Join(root, peersChart)] = r.drawChart()
	}
	for path, content := range files {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil { //nolint:gosec // G306: it is for everyone
			return fmt.Errorf("write page: %w", err)
		}
	}
	return nil
}

// fillPage replaces the results in the text of the page.
func (r *report) fillPage(text string) (string, error) {
	before, rest, found := strings.Cut(text, pageBegin)
	_, after, ended := strings.Cut(rest, pageEnd)
	if !found || !ended {
		return "", fmt.Errorf("write page: must have the lines %q and %q", strings.TrimSpace(pageBegin), strings.TrimSpace(pageEnd))
	}
	return before + pageBegin + r.describePeers() + pageEnd + after, nil
}

// pageColumn is a column of a table on the page.
type pageColumn struct{ figure, title string }

// describePeers returns the tables of the page.
func (r *report) describePeers() string {
	if len(r.Figures) == 0 {
		return "\nThis version has no results yet. `task bench:peers` makes them.\n\n"
	}
	m := r.Machine
	var page strings.Builder
	fmt.Fprintf(&page, "\nMeasured on %s, Holdpoint %s: %s, %s, %d cores, load %s before the run, Go %s, Node.js %s, PostgreSQL %s (fsync %s, synchronous_commit %s).\n\n",
		m.Date, m.Revision, m.System, m.Processor, m.Cores, m.Load, m.Go, m.Node, m.PostgreSQL, m.Fsync, m.Commit)
	if m.Quick {
		page.WriteString("**A quick run: the figures mean nothing.**\n\n")
	}
	page.WriteString("![Chart of the figures in the tables below](peers.svg)\n\n")
	r.writeTable(&page, gatewaysPhase, "A tool call through a gateway", []pageColumn{
		{gatewayP50, "p50, 1 client"},
		{gatewayTimes, "times direct"},
		{gatewayRate, "calls/s, 32 clients"},
		{gatewayShare, "share of direct"},
		{gatewayCPU, "processor time a call"},
		{gatewayMemory, "memory"},
	})
	r.writeTable(&page, agentsPhase, "A call that waits for approval", []pageColumn{
		{agentOne, "parked/s, 1 client"},
		{agentMany, "parked/s, 16 clients"},
		{agentBytes, "database a call"},
		{agentSlow50, "approve to arrival at 50/s, p50"},
		{agentSlow99, "p99"},
		{agentFast50, "at 200/s, p50"},
		{agentFast99, "p99"},
	})
	return page.String()
}

// writeTable writes a table with a row for each subject of a phase.
func (r *report) writeTable(page *strings.Builder, phase, title string, columns []pageColumn) {
	fmt.Fprintf(page, "### %s\n\n| program | version |", title)
	for _, c := range columns {
		page.WriteString(" " + c.title + " |")
	}
	page.WriteString("\n|---|---|" + strings.Repeat("---:|", len(columns)) + "\n")
	var missing []string
	for _, s := range r.Subjects {
		switch {
		case s.Phase != phase:
			continue
		case s.Missing != "":
			missing = append(missing, fmt.Sprintf("- %s was not measured: %s\n", strings.TrimSpace(s.Name+" "+s.Version), escapeText(s.Missing)))
			continue
		}
		fmt.Fprintf(page, "| %s | %s |", s.Name, s.Version)
		for _, c := range columns {
			cell := ""
			if f := r.findFigure(phase, s.Name, c.figure); f != nil {
				cell = formatCell(f)
			}
			page.WriteString(" " + cell + " |")
		}
		page.WriteString("\n")
	}
	page.WriteString("\n")
	for _, s := range r.Subjects {
		if s.Phase == phase && s.Missing == "" {
			fmt.Fprintf(page, "- %s: %s\n", s.Name, s.Does)
		}
	}
	page.WriteString(strings.Join(missing, "") + "\n")
}

func escapeText(text string) string { return html.EscapeString(strings.ReplaceAll(text, "`", "'")) }

func (r *report) findFigure(phase, subject, name string) *figure {
	i := slices.IndexFunc(r.Figures, func(f *figure) bool { return f.Phase == phase && f.Subject == subject && f.Name == name })
	if i < 0 {
		return nil
	}
	return r.Figures[i]
}

// formatCell formats a figure with its unit where the column's title does not tell it.
func formatCell(f *figure) string {
	switch f.Unit {
	case "ratio", "calls/s":
		return formatNumber(f.Value)
	default:
		return formatNumber(f.Value) + " " + strings.TrimSuffix(f.Unit, "/call")
	}
}

// drawChart draws the most telling figures as bars.
func (r *report) drawChart() string {
	const width, label, row, bar = 720, 190, 24, 400
	var body strings.Builder
	y := 0
	for _, panel := range []struct{ phase, figure, title string }{
		{gatewaysPhase, gatewayTimes, "A tool call through a gateway, 1 client: p50, times a direct call (less is better)"},
		{gatewaysPhase, gatewayShare, "The same, 32 clients: calls a second, share of direct calls (more is better)"},
		{agentsPhase, agentMany, "Calls parked a second, 16 clients (more is better)"},
		{agentsPhase, agentBytes, "Bytes in the database a parked call (less is better)"},
		{agentsPhase, agentSlow50, "Approve request to arrival, 50 approvals/s: p50, ms (less is better)"},
		{agentsPhase, agentSlow99, "The same: p99, ms (less is better)"},
	} {
		var shown []*figure
		most := 0.0
		for _, f := range r.Figures {
			if f.Phase == panel.phase && f.Name == panel.figure {
				shown, most = append(shown, f), max(most, f.Value)
			}
		}
		if len(shown) == 0 {
			continue
		}
		y += row
		fmt.Fprintf(&body, "<text class=\"title\" x=\"0\" y=\"%d\">%s</text>\n", y, html.EscapeString(panel.title))
		y += row / 2
		for _, f := range shown {
			class := "peer"
			if f.Subject == "Holdpoint" {
				class = "ours"
			}
			long := f.Value / max(most, 1e-9) * bar
			fmt.Fprintf(&body, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n", label-8, y+15, html.EscapeString(f.Subject))
			fmt.Fprintf(&body, "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"16\" rx=\"2\"/>\n", class, label, y+2, max(long, 1))
			fmt.Fprintf(&body, "<text x=\"%.1f\" y=\"%d\">%s</text>\n", label+long+8, y+15, formatNumber(f.Value))
			y += row
		}
		y += row / 2
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d" role="img" aria-label="Holdpoint and other programs">
<style>
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.title { font-weight: 600 }
.ours { fill: #0969da }
.peer { fill: #8c959f }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .ours { fill: #4493f8 } .peer { fill: #7d8590 } }
</style>
%s</svg>
`, width, y, body.String())
}
