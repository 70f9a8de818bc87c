package figures

import (
	"fmt"
	"math"
	"strconv"

	"github.com/holdpoint/holdpoint/ui/text"
)

// Charts are as wide as their container. Horizontal sizes are percentages and vertical sizes are pixels, so text is never scaled.
const (
	plotTop     = 10.0 // half a line of text
	plotHeight  = 180.0
	plotBase    = plotTop + plotHeight
	chartHeight = plotBase + 24 // labels below included
)

// Tick is a mark of an axis.
type Tick struct {
	Y    float64
	Text text.Message
}

// Column is a bucket of time.
type Column struct {
	Name  text.Message // in full
	Label text.Message // below the axis; may be empty
	URL   string       // of its calls
}

// Slot is the position of a column.
type Slot struct {
	Column

	X, Width, Middle float64
}

// layOutSlots divides the width among columns.
func layOutSlots(columns []Column) []Slot {
	width := 100 / float64(max(len(columns), 1))
	list := make([]Slot, len(columns))
	for i, c := range columns {
		list[i] = Slot{Column: c, X: (float64(i) + .12) * width, Width: .76 * width, Middle: (float64(i) + .5) * width}
	}
	return list
}

// edge is the width at each end of the axis where labels are aligned so that they stay within the picture.
const edge = 4.0

func (s *Slot) alignLabel() string {
	switch {
	case s.Middle < edge:
		return "start"
	case s.Middle > 100-edge:
		return "end"
	}
	return "middle"
}

func (s *Slot) labelX() float64 {
	switch s.alignLabel() {
	case "start":
		return 0
	case "end":
		return 100
	}
	return s.Middle
}

// needsScrolling reports whether columns would be too narrow on a phone.
func needsScrolling(columns int) bool { return columns > 31 }

// countScale maps counts to heights.
type countScale struct {
	top int
}

// newCountScale returns a scale that ends with a round number.
func newCountScale(highest int) countScale {
	for unit := 1; ; unit *= 10 {
		for _, factor := range []int{1, 2, 4, 5, 8, 10} {
			if top := unit * factor; top >= highest {
				return countScale{max(top, 1)}
			}
		}
	}
}

func (s countScale) scale(n int) float64 { return plotHeight * float64(n) / float64(s.top) }

func (s countScale) makeTicks() []Tick {
	parts := 4
	for s.top%parts != 0 {
		parts--
	}
	ticks := make([]Tick, 0, parts+1)
	for i := range parts + 1 {
		n := s.top / parts * i
		ticks = append(ticks, Tick{plotBase - s.scale(n), text.Number(n)})
	}
	return ticks
}

type axisTime struct {
	seconds float64
	text    text.Message
}

// listAxisTimes returns the times that an axis may show.
func listAxisTimes() []axisTime {
	times := []axisTime{{.1, text.MeasureShortSeconds(text.Decimal(.1, 1))}, {.3, text.MeasureShortSeconds(text.Decimal(.3, 1))}}
	for _, unit := range []struct {
		seconds int
		format  func(int) text.Message
		counts  []int
	}{
		{1, text.InsightSeconds, []int{1, 3, 10, 30}},
		{60, text.InsightMinutes, []int{1, 3, 10, 30}},
		{3600, text.InsightHours, []int{1, 3, 12}},
		{86400, text.InsightAxisDays, []int{1, 3, 7, 30, 90}},
		{365 * 86400, text.InsightYears, []int{1}},
	} {
		for _, n := range unit.counts {
			times = append(times, axisTime{float64(unit.seconds * n), unit.format(n)})
		}
	}
	return times
}

// timeScale maps times, in seconds, to heights on a logarithmic scale.
type timeScale struct {
	times []axisTime // from the lower to the upper end
}

func newTimeScale(least, most float64) timeScale {
	all := listAxisTimes()
	first, last := 0, len(all)-1
	for first+1 < len(all) && all[first+1].seconds <= least {
		first++
	}
	for last-1 > first && all[last-1].seconds >= most {
		last--
	}
	if first == last {
		first--
	}
	return timeScale{all[first : last+1]}
}

func (s timeScale) scale(seconds float64) float64 {
	low, high := s.times[0].seconds, s.times[len(s.times)-1].seconds
	seconds = min(max(seconds, low), high)
	return plotBase - plotHeight*math.Log(seconds/low)/math.Log(high/low)
}

// makeTicks returns the ticks of the scale, thinned out if there are many.
func (s timeScale) makeTicks() []Tick {
	step := 1 + len(s.times)/9
	var ticks []Tick
	for i := 0; i < len(s.times); i += step {
		ticks = append(ticks, Tick{s.scale(s.times[i].seconds), s.times[i].text})
	}
	return ticks
}

func formatPercent(x float64) string { return fmt.Sprintf("%.2f%%", x) }

func formatPixels(y float64) string { return fmt.Sprintf("%.1f", y) }

func barID(chart string, bar int) string { return chart + "-bar-" + strconv.Itoa(bar) }
