package present

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/ui/text"
)

// NameStep names a step of the pipeline.
func NameStep(step call.PipelineStep) text.Message {
	switch step {
	case call.StepValidate:
		return text.MeasureStepValidate()
	case call.StepResolve:
		return text.MeasureStepResolve()
	case call.StepCredentials:
		return text.MeasureStepCredentials()
	case call.StepCall:
		return text.MeasureStepCall()
	case call.StepTransform:
		return text.MeasureStepTransform()
	case call.StepLog:
		return text.MeasureStepLog()
	}
	return text.Literal(string(step))
}

// HTTPStatusWords returns a status with its name, if it has one.
func HTTPStatusWords(status int) string {
	return strings.TrimSpace(strconv.Itoa(status) + " " + http.StatusText(status))
}

// FormatDuration returns a duration in whole seconds, rounded up. The dashboard's script writes countdowns in the same format.
func FormatDuration(d time.Duration) text.Message {
	seconds := int((d + time.Second - 1) / time.Second)
	switch {
	case seconds <= 0:
		return text.CountdownTimeUp()
	case seconds < 60:
		return text.CountdownSeconds(seconds)
	case seconds < 3600:
		return text.CountdownMinutes(seconds/60, seconds%60)
	case seconds < 86400:
		return text.CountdownHours(seconds/3600, seconds%3600/60)
	}
	return text.CountdownDays(seconds/86400, seconds%86400/3600)
}

// FormatShortDuration returns a duration with at most three digits.
func FormatShortDuration(d time.Duration) text.Message {
	if n := float64(d) / float64(time.Microsecond); n < 999.5 {
		return text.MeasureShortMicroseconds(formatDigits(n))
	}
	if n := float64(d) / float64(time.Millisecond); n < 999.5 {
		return text.MeasureShortMilliseconds(formatDigits(n))
	}
	if d < 10*time.Second {
		return text.MeasureShortSeconds(formatDigits(d.Seconds()))
	}
	return FormatDuration(d.Round(time.Second))
}

// formatDigits returns a number below 1000 with two significant digits, or all digits before the point.
func formatDigits(n float64) text.Message {
	if n < 9.95 && n != float64(int(n)) {
		return text.Decimal(n, 1)
	}
	return text.Decimal(n, 0)
}

// FormatSize returns a size in decimal units.
func FormatSize(n int64) text.Message {
	if n < 1000 {
		return text.MeasureBytes(int(n))
	}
	size := float64(n)
	for _, format := range []func(text.Message) text.Message{text.MeasureKilobytes, text.MeasureMegabytes, text.MeasureGigabytes} {
		if size /= 1000; size < 999.5 {
			return format(formatDigits(size))
		}
	}
	return text.MeasureTerabytes(formatDigits(size / 1000))
}
