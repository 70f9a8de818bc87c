package figures_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/ui/figures"
	"github.com/holdpoint/holdpoint/ui/text"
)

func columns(n int) []figures.Column {
	list := make([]figures.Column, n)
	for i := range list {
		list[i].Name = text.Number(i)
	}
	return list
}

func labels(t *testing.T, ticks []figures.Tick) string {
	t.Helper()
	words := make([]string, len(ticks))
	for i, tick := range ticks {
		words[i] = tick.Text.In(t.Context())
	}
	return strings.Join(words, " ")
}

func TestStackChart(t *testing.T) {
	t.Parallel()
	kinds := []figures.Kind{{Look: figures.LookDone}, {Look: figures.LookFailed}}
	chart := figures.NewStackChart(figures.Chart{}, kinds, columns(4), [][]int{{30, 10}, {0, 0}, {0, 80}, {70, 3}})
	if got := labels(t, chart.Ticks); got != "0 20 40 60 80" {
		t.Errorf("the axis says %s", got)
	}
	if chart.Scrolling || len(chart.Bars) != 4 || len(chart.Bars[1].Parts) != 0 || len(chart.Bars[2].Parts) != 1 {
		t.Fatalf("chart %+v", chart)
	}
	first, highest := chart.Bars[0], chart.Bars[2].Parts[0]
	if done, failed := first.Parts[0], first.Parts[1]; failed.Y+failed.Height != done.Y || done.Height != 3*failed.Height ||
		highest.Height != 8*failed.Height || highest.Y != chart.Ticks[4].Y {
		t.Errorf("first column %+v, third %+v", first.Parts, highest)
	}
	if first.Middle != 12.5 || first.X <= 0 || first.X+first.Width >= 25 {
		t.Errorf("place of the first column: %+v", first.Slot)
	}
	for highest, want := range map[int]string{0: "0 1", 1: "0 1", 3: "0 1 2 3 4", 7: "0 2 4 6 8", 9: "0 5 10", 1001: "0 500 1,000 1,500 2,000", 35_000: "0 10,000 20,000 30,000 40,000"} {
		chart := figures.NewStackChart(figures.Chart{}, kinds[:1], columns(1), [][]int{{highest}})
		if got := labels(t, chart.Ticks); got != want {
			t.Errorf("up to %d the axis says %s, want %s", highest, got, want)
		}
	}
	if !figures.NewStackChart(figures.Chart{}, nil, columns(90), make([][]int, 90)).Scrolling {
		t.Error("90 columns fit on a phone")
	}
}

func TestSpreadChart(t *testing.T) {
	t.Parallel()
	spreads := []*figures.Spread{
		{P50: time.Second, P90: 10 * time.Second}, {P50: 10 * time.Second, P90: 100 * time.Second}, nil, {P50: 10 * time.Second, P90: 10 * time.Second},
	}
	chart := figures.NewSpreadChart(figures.Chart{}, columns(4), spreads, 3*time.Second)
	if got := labels(t, chart.Ticks); got != "1 s 3 s 10 s 30 s 1 min 3 min" {
		t.Errorf("the axis says %s", got)
	}
	if len(chart.Dots) != 3 || len(chart.Lines) != 1 || len(chart.Slots) != 4 {
		t.Fatalf("%d dots, %d lines, %d places", len(chart.Dots), len(chart.Lines), len(chart.Slots))
	}
	// The scale is logarithmic.
	if a, b := chart.Dots[0].P50-chart.Dots[0].P90, chart.Dots[1].P50-chart.Dots[1].P90; math.Abs(a-b) > .001 || a <= 0 {
		t.Errorf("from 1 to 10 s are %f, from 10 to 100 s %f", a, b)
	}
	if chart.Fast == nil || chart.Fast.Y != chart.Ticks[1].Y {
		t.Errorf("the line at 3 s is at %+v", chart.Fast)
	}
	if slow := figures.NewSpreadChart(figures.Chart{}, columns(1), []*figures.Spread{{P50: time.Hour, P90: 400 * 24 * time.Hour}}, 3*time.Second); slow.Fast != nil ||
		slow.Dots[0].P90 != slow.Ticks[len(slow.Ticks)-1].Y {
		t.Errorf("what is longer than the scale: %+v", slow.Dots)
	}
	if quick := figures.NewSpreadChart(figures.Chart{}, columns(1), []*figures.Spread{{}}, 0); math.IsNaN(quick.Dots[0].P50) || math.IsInf(quick.Dots[0].P50, 0) {
		t.Errorf("no time at all is at %f", quick.Dots[0].P50)
	}
}

func TestHeatChart(t *testing.T) {
	t.Parallel()
	var counts [7][24]int
	counts[0][0], counts[1][3], counts[6][23] = 1, 50, 12345
	chart := figures.NewHeatChart(figures.Chart{}, [7]text.Message{6: text.InsightSunday()}, counts)
	if len(chart.Cells) != 7*24 || len(chart.Days) != 7 || len(chart.Hours) != 24 {
		t.Fatalf("%d cells", len(chart.Cells))
	}
	last := chart.Cells[7*24-1]
	if last.Level != 4 || !last.IsPeak() || last.Text != "12k" || last.Name.In(t.Context()) != "Sun 23:00: 12,345" {
		t.Errorf("busiest hour: %+v", last)
	}
	if first := chart.Cells[0]; first.Level != 1 || first.Text != "1" || chart.Cells[1].Level != 0 || chart.Cells[1].Text != "" {
		t.Errorf("first hours: %+v, %+v", first, chart.Cells[1])
	}
}

func TestLayOutParts(t *testing.T) {
	t.Parallel()
	looks := []figures.Look{figures.LookDone, figures.LookRejected}
	if got := figures.LayOutParts(4, looks, 1, 3); len(got) != 2 || got[0].Width != 25 || got[1].X != 25 || got[1].Width != 75 {
		t.Errorf("one of four: %+v", got)
	}
	if got := figures.LayOutParts(0, looks, 0, 0); len(got) != 0 {
		t.Errorf("none of none: %+v", got)
	}
}
