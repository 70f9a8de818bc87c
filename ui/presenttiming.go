package ui

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/ui/view"
)

// presentTiming is nil when nothing was measured.
func presentTiming(m *call.Measures) *view.Timing {
	if m == nil {
		return nil
	}
	t := &view.Timing{Table: view.DataTable{Caption: "How long each step took", Head: []string{"Step", "Time"}}}
	for i, step := range call.PipelineSteps() {
		if m.Took[i] > 0 {
			t.Table.Rows = append(t.Table.Rows, view.DataRow{Name: stepWords(step), Cells: []string{shortTime(m.Took[i])}})
		}
	}
	if m.Exchanged() {
		says := []string{bytesWords(m.Sent) + " sent", bytesWords(m.Received) + " received"}
		if m.HTTPStatus > 0 {
			says = append([]string{"HTTP status " + httpStatusWords(m.HTTPStatus)}, says...)
		}
		t.Says = strings.Join(says, ", ") + "."
	}
	return t
}

func stepWords(step call.PipelineStep) string {
	words := string(step)
	return strings.ToUpper(words[:1]) + words[1:]
}

// httpStatusWords is a status with its name, if it has one.
func httpStatusWords(status int) string {
	return strings.TrimSpace(strconv.Itoa(status) + " " + http.StatusText(status))
}

// shortTime is a length of time with three digits at most.
func shortTime(d time.Duration) string {
	for _, unit := range []struct {
		is   time.Duration
		name string
	}{{time.Microsecond, "µs"}, {time.Millisecond, "ms"}} {
		if n := float64(d) / float64(unit.is); n < 999.5 {
			return digits(n) + " " + unit.name
		}
	}
	if d < 10*time.Second {
		return digits(d.Seconds()) + " s"
	}
	return leftWords(d.Round(time.Second))
}

// digits is a number below 1000 with two digits that count, or all before the point.
func digits(n float64) string {
	if n < 9.95 && n != float64(int(n)) {
		return fmt.Sprintf("%.1f", n)
	}
	return fmt.Sprintf("%.0f", n)
}

// bytesWords is a size in units of 1000.
func bytesWords(n int64) string {
	size := float64(n)
	if n < 1000 {
		return counted(int(n), "byte", "bytes")
	}
	for _, unit := range []string{"kB", "MB", "GB"} {
		if size /= 1000; size < 999.5 {
			return digits(size) + " " + unit
		}
	}
	return digits(size/1000) + " TB"
}
