package figures

import (
	"math"
	"strconv"

	"github.com/holdpoint/holdpoint/ui/view"
)

// Charts are as wide as their place: what lies along is in hundredths of the width, what stands
// is in pixels, so that text is never scaled.
const (
	plotTop     = 10.0  // room for half a line of text
	plotHeight  = 180.0 // between the highest value and the axis
	plotBase    = plotTop + plotHeight
	chartHeight = plotBase + 24 // with the labels below
)

// Tick is a mark of an axis.
type Tick struct {
	Y    float64
	Text string
}

// Column is a part of the time that a chart is about.
type Column struct {
	Name  string // in full
	Label string // below the axis; empty: none
	URL   string // of its calls
}

// Slot is the place of a column.
type Slot struct {
	Column

	X, Width, Middle float64
}

// slots divides the width among columns.
func slots(columns []Column) []Slot {
	width := 100 / float64(max(len(columns), 1))
	list := make([]Slot, len(columns))
	for i, c := range columns {
		list[i] = Slot{Column: c, X: (float64(i) + .12) * width, Width: .76 * width, Middle: (float64(i) + .5) * width}
	}
	return list
}

// A label at an end of the axis stays within the picture.
const end = 4.0

func (s *Slot) anchor() string {
	switch {
	case s.Middle < end:
		return "start"
	case s.Middle > 100-end:
		return "end"
	}
	return "middle"
}

func (s *Slot) labelX() float64 {
	switch s.anchor() {
	case "start":
		return 0
	case "end":
		return 100
	}
	return s.Middle
}

// many reports whether columns would be too narrow for a phone.
func many(columns int) bool { return columns > 31 }

// countScale maps counts to heights.
type countScale struct {
	top int
}

// newCountScale makes a scale that ends with a round number.
func newCountScale(highest int) countScale {
	for unit := 1; ; unit *= 10 {
		for _, factor := range []int{1, 2, 4, 5, 8, 10} {
			if top := unit * factor; top >= highest {
				return countScale{max(top, 1)}
			}
		}
	}
}

func (s countScale) height(n int) float64 { return plotHeight * float64(n) / float64(s.top) }

func (s countScale) ticks() []Tick {
	parts := 4
	for s.top%parts != 0 {
		parts--
	}
	ticks := make([]Tick, 0, parts+1)
	for i := range parts + 1 {
		n := s.top / parts * i
		ticks = append(ticks, Tick{plotBase - s.height(n), view.Thousands(n)})
	}
	return ticks
}

type length struct {
	seconds float64
	text    string
}

// timeTicks are the lengths of time that a scale of them may show.
func timeTicks() []length {
	return []length{
		{.1, "0.1 s"},
		{.3, "0.3 s"},
		{1, "1 s"},
		{3, "3 s"},
		{10, "10 s"},
		{30, "30 s"},
		{60, "1 min"},
		{180, "3 min"},
		{600, "10 min"},
		{1800, "30 min"},
		{3600, "1 h"},
		{3 * 3600, "3 h"},
		{12 * 3600, "12 h"},
		{86400, "1 d"},
		{3 * 86400, "3 d"},
		{7 * 86400, "7 d"},
		{30 * 86400, "30 d"},
		{90 * 86400, "90 d"},
		{365 * 86400, "1 y"},
	}
}

// timeScale maps lengths of time, in seconds, to heights: each is as far from another as it is times as long.
type timeScale struct {
	ticks []length // the ends of the scale among them
}

func newTimeScale(least, most float64) timeScale {
	all := timeTicks()
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

func (s timeScale) y(seconds float64) float64 {
	low, high := s.ticks[0].seconds, s.ticks[len(s.ticks)-1].seconds
	seconds = min(max(seconds, low), high)
	return plotBase - plotHeight*math.Log(seconds/low)/math.Log(high/low)
}

// marks are the ticks at their heights; of many, every other one.
func (s timeScale) marks() []Tick {
	step := 1 + len(s.ticks)/9
	var marks []Tick
	for i := 0; i < len(s.ticks); i += step {
		marks = append(marks, Tick{s.y(s.ticks[i].seconds), s.ticks[i].text})
	}
	return marks
}

// percent writes a place along the width.
func percent(hundredths float64) string { return strconv.FormatFloat(hundredths, 'f', 2, 64) + "%" }

// px writes a place along the height.
func px(pixels float64) string { return strconv.FormatFloat(pixels, 'f', 1, 64) }

func barID(chart string, bar int) string { return chart + "-bar-" + strconv.Itoa(bar) }
