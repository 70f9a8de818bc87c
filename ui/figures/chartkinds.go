package figures

import (
	"time"

	"github.com/holdpoint/holdpoint/ui/view"
)

// StackChart shows how many of several kinds there were, over time.
type StackChart struct {
	Chart

	Kinds []Kind
	Many  bool
	Ticks []Tick
	Bars  []StackBar
}

// StackBar is one column.
type StackBar struct {
	Slot

	Parts []StackPart
}

// StackPart is how many of one kind there were.
type StackPart struct {
	Look      Look
	Y, Height float64
}

// NewStackChart lays out a chart: for each column, how many there were of each kind.
func NewStackChart(c Chart, kinds []Kind, columns []Column, counts [][]int) *StackChart {
	highest := 0
	for _, column := range counts {
		sum := 0
		for _, n := range column {
			sum += n
		}
		highest = max(highest, sum)
	}
	scale := newCountScale(highest)
	chart := &StackChart{Chart: c, Kinds: kinds, Many: many(len(columns)), Ticks: scale.ticks()}
	for i, slot := range slots(columns) {
		bar, below := StackBar{Slot: slot}, 0
		for k, n := range counts[i] {
			if n > 0 {
				below += n
				bar.Parts = append(bar.Parts, StackPart{kinds[k].Look, plotBase - scale.height(below), scale.height(n)})
			}
		}
		chart.Bars = append(chart.Bars, bar)
	}
	return chart
}

// SpreadChart shows how long half, and nine tenths, took at most, over time.
type SpreadChart struct {
	Chart

	Many  bool
	Ticks []Tick
	Slots []Slot
	Dots  []SpreadDot
	Lines []SpreadLine
	Fast  *Tick // below it nobody reads; nil: it is not on the scale
}

// SpreadDot is a column's two values.
type SpreadDot struct {
	Slot

	P50, P90 float64 // heights
}

// SpreadLine joins the values of neighbours.
type SpreadLine struct {
	X1, X2       float64
	P50Y1, P50Y2 float64
	P90Y1, P90Y2 float64
}

// Spread is what a column took; nil where there was nothing.
type Spread struct{ P50, P90 time.Duration }

// NewSpreadChart lays out a chart. A line where fast begins is drawn when it is not zero.
func NewSpreadChart(c Chart, columns []Column, spreads []*Spread, fast time.Duration) *SpreadChart {
	least, most := 0.0, 0.0
	for _, s := range spreads {
		if s == nil {
			continue
		}
		if low := s.P50.Seconds(); least == 0 || low < least {
			least = low
		}
		most = max(most, s.P90.Seconds())
	}
	scale := newTimeScale(least, most)
	chart := &SpreadChart{Chart: c, Many: many(len(columns)), Ticks: scale.marks()}
	if y := scale.y(fast.Seconds()); fast > 0 && y < plotBase && y > plotTop {
		chart.Fast = &Tick{y, "3 s"}
	}
	before := -1
	chart.Slots = slots(columns)
	for i, slot := range chart.Slots {
		s := spreads[i]
		if s == nil {
			continue
		}
		dot := SpreadDot{slot, scale.y(s.P50.Seconds()), scale.y(s.P90.Seconds())}
		if before == i-1 && len(chart.Dots) > 0 {
			last := chart.Dots[len(chart.Dots)-1]
			chart.Lines = append(chart.Lines, SpreadLine{
				X1: last.Middle, X2: dot.Middle, P50Y1: last.P50, P50Y2: dot.P50, P90Y1: last.P90, P90Y2: dot.P90,
			})
		}
		chart.Dots = append(chart.Dots, dot)
		before = i
	}
	return chart
}

// BarChart shows shares, one below the other.
type BarChart struct {
	Chart

	Kinds []Kind
	Bars  []Bar
}

// Bar is one of them.
type Bar struct {
	Name  string // may be from outside
	URL   string
	Value string
	Says  string
	Parts []BarPart
}

// BarPart is a part of a bar, in hundredths.
type BarPart struct {
	Look     Look
	X, Width float64
}

// Parts lays numbers out one after the other; they fill the bar when they add up to whole.
func Parts(whole int, looks []Look, numbers ...int) []BarPart {
	var parts []BarPart
	at := 0
	for i, n := range numbers {
		if n > 0 && whole > 0 {
			parts = append(parts, BarPart{looks[i], 100 * float64(at) / float64(whole), 100 * float64(n) / float64(whole)})
			at += n
		}
	}
	return parts
}

// HeatChart shows how much there was at each hour of the week.
type HeatChart struct {
	Chart

	Days  []Tick // the names of the days
	Hours []Slot
	Cells []HeatCell
}

// HeatCell is one hour of the week.
type HeatCell struct {
	Slot

	Y     float64
	Level int // of 0 to 4
	Text  string
}

const highestLevel = 4

// Peak reports whether the cell's colour is so strong that text on it needs another.
func (c *HeatCell) Peak() bool { return c.Level == highestLevel }

// Opacity is how strong the cell's colour is.
func (c *HeatCell) Opacity() string {
	return [highestLevel + 1]string{".05", ".14", ".26", ".4", "1"}[c.Level]
}

const (
	heatRow    = 30.0
	heatHeight = 7*heatRow + 24
)

// NewHeatChart lays out a chart of a week's hours.
func NewHeatChart(c Chart, days [7]string, counts [7][24]int) *HeatChart {
	highest := 0
	for _, hours := range counts {
		for _, n := range hours {
			highest = max(highest, n)
		}
	}
	columns := make([]Column, 24)
	for hour := range columns {
		columns[hour].Name = clockHour(hour)
		if hour%3 == 0 {
			columns[hour].Label = columns[hour].Name
		}
	}
	chart := &HeatChart{Chart: c, Hours: slots(columns)}
	for day, hours := range counts {
		y := float64(day) * heatRow
		chart.Days = append(chart.Days, Tick{y + heatRow/2, days[day]})
		for hour, n := range hours {
			cell := HeatCell{Slot: chart.Hours[hour], Y: y, Text: short(n)}
			cell.X, cell.Width = float64(hour)*100/24+.05, 100.0/24-.1
			if n > 0 {
				cell.Level = (highestLevel*n + highest - 1) / highest
			}
			cell.Name = days[day] + " " + columns[hour].Name + ": " + view.Thousands(n)
			chart.Cells = append(chart.Cells, cell)
		}
	}
	return chart
}

func clockHour(hour int) string { return time.Date(1, 1, 1, hour, 0, 0, 0, time.UTC).Format("15:04") }

// short writes a count in at most four characters.
func short(n int) string {
	switch {
	case n == 0:
		return ""
	case n < 1000:
		return view.Thousands(n)
	case n < 1_000_000:
		return view.Thousands(n/1000) + "k"
	}
	return view.Thousands(n/1_000_000) + "M"
}
