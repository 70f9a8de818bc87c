package figures

import (
	"fmt"
	"strconv"
	"time"

	"github.com/holdpoint/holdpoint/ui/text"
)

// StackChart shows counts by kind over time, as stacked columns.
type StackChart struct {
	Chart

	Kinds     []Kind
	Scrolling bool
	Ticks     []Tick
	Bars      []StackBar
}

// StackBar is one column.
type StackBar struct {
	Slot

	Parts []StackPart
}

// StackPart is the part of a column for one kind.
type StackPart struct {
	Look      Look
	Y, Height float64
}

// NewStackChart lays out a chart of counts by column and kind.
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
	chart := &StackChart{Chart: c, Kinds: kinds, Scrolling: needsScrolling(len(columns)), Ticks: scale.makeTicks()}
	for i, slot := range layOutSlots(columns) {
		bar, below := StackBar{Slot: slot}, 0
		for k, n := range counts[i] {
			if n > 0 {
				below += n
				bar.Parts = append(bar.Parts, StackPart{kinds[k].Look, plotBase - scale.scale(below), scale.scale(n)})
			}
		}
		chart.Bars = append(chart.Bars, bar)
	}
	return chart
}

// SpreadChart shows the median and the 90th percentile over time.
type SpreadChart struct {
	Chart

	Scrolling bool
	Ticks     []Tick
	Slots     []Slot
	Dots      []SpreadDot
	Lines     []SpreadLine
	Fast      *Tick // decisions below it are too fast; nil: not on the scale
}

// SpreadDot holds the two values of a column.
type SpreadDot struct {
	Slot

	P50, P90 float64 // heights
}

// SpreadLine connects the values of adjacent columns.
type SpreadLine struct {
	X1, X2       float64
	P50Y1, P50Y2 float64
	P90Y1, P90Y2 float64
}

// Spread holds the times of a column.
type Spread struct{ P50, P90 time.Duration }

// NewSpreadChart lays out a chart with a spread for each column, nil for a column without data, and a line at fast if that is not zero.
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
	chart := &SpreadChart{Chart: c, Scrolling: needsScrolling(len(columns)), Ticks: scale.makeTicks()}
	if y := scale.scale(fast.Seconds()); fast > 0 && y < plotBase && y > plotTop {
		chart.Fast = &Tick{y, text.InsightSeconds(int(fast.Seconds()))}
	}
	before := -1
	chart.Slots = layOutSlots(columns)
	for i, slot := range chart.Slots {
		s := spreads[i]
		if s == nil {
			continue
		}
		dot := SpreadDot{slot, scale.scale(s.P50.Seconds()), scale.scale(s.P90.Seconds())}
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

// BarChart shows shares as horizontal bars.
type BarChart struct {
	Chart

	Kinds []Kind
	Bars  []Bar
}

// Bar is a bar of a chart.
type Bar struct {
	Name    text.Message // may be from outside
	URL     string
	Value   text.Message
	Meaning text.Message // describes the bar to people who do not see it
	Parts   []BarPart
}

// BarPart is a part of a bar, in percent.
type BarPart struct {
	Look     Look
	X, Width float64
}

// LayOutParts lays out numbers side by side. They fill the bar if their sum is whole.
func LayOutParts(whole int, looks []Look, numbers ...int) []BarPart {
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

// HeatChart shows counts by hour of the week.
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

// IsPeak reports whether the color of the cell is so strong that its text needs another color.
func (c *HeatCell) IsPeak() bool { return c.Level == highestLevel }

// Opacity returns the opacity of the cell's color.
func (c *HeatCell) Opacity() string {
	return [highestLevel + 1]string{".05", ".14", ".26", ".4", "1"}[c.Level]
}

const (
	heatRow    = 30.0
	heatHeight = 7*heatRow + 24
)

// NewHeatChart lays out a chart of counts by weekday and hour.
func NewHeatChart(c Chart, days [7]text.Message, counts [7][24]int) *HeatChart {
	highest := 0
	for _, hours := range counts {
		for _, n := range hours {
			highest = max(highest, n)
		}
	}
	columns := make([]Column, 24)
	for hour := range columns {
		if hour%3 == 0 {
			columns[hour].Label = text.Literal(formatHour(hour))
		}
	}
	chart := &HeatChart{Chart: c, Hours: layOutSlots(columns)}
	for day, hours := range counts {
		y := float64(day) * heatRow
		chart.Days = append(chart.Days, Tick{y + heatRow/2, days[day]})
		for hour, n := range hours {
			cell := HeatCell{Slot: chart.Hours[hour], Y: y, Text: shortenCount(n)}
			cell.X, cell.Width = float64(hour)*100/24+.05, 100.0/24-.1
			if n > 0 {
				cell.Level = (highestLevel*n + highest - 1) / highest
			}
			cell.Name = text.InsightHourCell(days[day], formatHour(hour), n)
			chart.Cells = append(chart.Cells, cell)
		}
	}
	return chart
}

func formatHour(hour int) string { return fmt.Sprintf("%02d:00", hour) }

// shortenCount writes a count in at most four characters.
func shortenCount(n int) string {
	switch {
	case n == 0:
		return ""
	case n < 1000:
		return strconv.Itoa(n)
	case n < 1_000_000:
		return strconv.Itoa(n/1000) + "k"
	}
	return strconv.Itoa(n/1_000_000) + "M"
}
