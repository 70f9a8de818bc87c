package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// comparePeers returns figures of programs, one of which was not measured.
func comparePeers() *report {
	r := &report{Machine: machine{Date: "2026-01-02", Revision: "abc1234", Node: "20.1.0", Processor: "Abacus", Load: "0.1"}}
	ours, peer := r.addSubject(gatewaysPhase, "Holdpoint", "Records."), r.addSubject(gatewaysPhase, "Other", "Forwards.")
	peer.Version = "1.2.3"
	r.addSubject(gatewaysPhase, "Third", "Forwards.").Missing = "<it> ended"
	r.addOf(ours, gatewayTimes, "ratio", []float64{3, 4, 5})
	r.addOf(peer, gatewayTimes, "ratio", []float64{2})
	r.addOf(ours, gatewayCPU, "µs/call", []float64{300})
	return r
}

func TestPageShowsFiguresAndWhatIsMissing(t *testing.T) {
	t.Parallel()
	page, err := comparePeers().fillPage("before\n" + pageBegin + "stale\n" + pageEnd + "after\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"before\n", "after\n", "2026-01-02", "Abacus", "abc1234", "| Holdpoint |  |  | 4 |  |  | 300 µs |  |", "| Other | 1.2.3 |  | 2 |", "- Other: Forwards.",
		"- Third was not measured: &lt;it&gt; ended",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	if strings.Contains(page, "stale") || strings.Contains(page, "| Third |") {
		t.Errorf("the page shows results that are gone or missing:\n%s", page)
	}
	if _, err := new(report).fillPage("no lines"); err == nil {
		t.Error("a page without the lines was filled")
	}
}

func TestChartIsXMLWithABarForEachFigure(t *testing.T) {
	t.Parallel()
	chart := comparePeers().drawChart()
	bars := 0
	for reader := xml.NewDecoder(strings.NewReader(chart)); ; {
		token, err := reader.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v:\n%s", err, chart)
		}
		if element, ok := token.(xml.StartElement); ok && element.Name.Local == "rect" {
			bars++
		}
	}
	if bars != 2 || !strings.Contains(chart, `class="ours" x="190" y="38" width="400.0"`) {
		t.Errorf("got %d bars, want 2, ours the longest:\n%s", bars, chart)
	}
}

// TestPageIsOfTheResults holds the page and its chart together with the figures.
func TestPageIsOfTheResults(t *testing.T) {
	t.Parallel()
	root := ".."
	r, err := readReport(filepath.Join(root, peersFile))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, peersPage))
	if err != nil {
		t.Fatal(err)
	}
	if want, err := r.fillPage(string(text)); err != nil || want != string(text) {
		t.Errorf("docs/peers.md does not show bench/peers.json: go run ./bench -page (%v)", err)
	}
	chart, err := os.ReadFile(filepath.Join(root, peersChart))
	if err == nil != (len(r.Figures) > 0) || err == nil && string(chart) != r.drawChart() {
		t.Errorf("docs/peers.svg does not show bench/peers.json: go run ./bench -page (%v)", err)
	}
}
