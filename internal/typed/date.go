package typed

import (
	"strconv"
	"strings"
	"time"
)

// DateValue is a moment or a day.
type DateValue struct {
	At    time.Time
	Form  DateForm
	Epoch time.Duration // the unit that a number counts since 1970; zero: it is written as a date
}

// DateForm says how exact a date is.
type DateForm uint8

// The forms of dates.
const (
	Instant DateForm = iota
	Local            // date and time without a zone; At has them in UTC
	Day              // a date only
)

func (m member) recognizeDate(v *Value, text string, _ int) bool {
	if len(text) < len("2006-01-02") || len(text) > len("2006-01-02T15:04:05.999999999+00:00") {
		return false
	}
	for _, layout := range []struct {
		text string
		form DateForm
	}{
		{time.RFC3339Nano, Instant},
		{"2006-01-02 15:04:05Z07:00", Instant},
		{"2006-01-02T15:04:05", Local},
		{"2006-01-02T15:04", Local},
		{"2006-01-02 15:04:05", Local},
		{"2006-01-02 15:04", Local},
		{time.DateOnly, Day},
	} {
		if at, err := time.Parse(layout.text, text); err == nil {
			v.Kind, v.Date = Date, &DateValue{At: at, Form: layout.form}
			return true
		}
	}
	return m.recognizeEpoch(v, text)
}

// recognizeEpoch recognizes a number as a time if its name says so, and if it is between 1973 and 5138.
func (m member) recognizeEpoch(v *Value, text string) bool {
	if !m.isNamed(timeWords) {
		return false
	}
	whole, fraction, _ := strings.Cut(text, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || strings.Trim(fraction, "0123456789") != "" {
		return false
	}
	date := &DateValue{}
	switch {
	case n < 1e8:
		return false
	case n < 1e11:
		date.Epoch, date.At = time.Second, time.Unix(n, 0)
	case n < 1e14:
		date.Epoch, date.At = time.Millisecond, time.UnixMilli(n)
	case n < 1e17:
		date.Epoch, date.At = time.Microsecond, time.UnixMicro(n)
	default:
		date.Epoch, date.At = time.Nanosecond, time.Unix(0, n)
	}
	date.At = date.At.UTC()
	v.Kind, v.Date = Date, date
	return true
}
