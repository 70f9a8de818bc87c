package present

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/ui/view"
)

// StepWords names a step of the pipeline.
func StepWords(step call.PipelineStep) string {
	words := string(step)
	return strings.ToUpper(words[:1]) + words[1:]
}

// HTTPStatusWords is a status with its name, if it has one.
func HTTPStatusWords(status int) string {
	return strings.TrimSpace(strconv.Itoa(status) + " " + http.StatusText(status))
}

// ShortTime is a length of time with three digits at most.
func ShortTime(d time.Duration) string {
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
	return LeftWords(d.Round(time.Second))
}

// digits is a number below 1000 with two digits that count, or all before the point.
func digits(n float64) string {
	if n < 9.95 && n != float64(int(n)) {
		return fmt.Sprintf("%.1f", n)
	}
	return fmt.Sprintf("%.0f", n)
}

// BytesWords is a size in units of 1000.
func BytesWords(n int64) string {
	size := float64(n)
	if n < 1000 {
		return view.Plural(int(n), "byte", "bytes")
	}
	for _, unit := range []string{"kB", "MB", "GB"} {
		if size /= 1000; size < 999.5 {
			return digits(size) + " " + unit
		}
	}
	return digits(size/1000) + " TB"
}
