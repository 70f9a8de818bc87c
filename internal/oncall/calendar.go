package oncall

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	ics "github.com/arran4/golang-ical"
	"github.com/teambition/rrule-go"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/plain"
)

// Bounds of a calendar.
const (
	maxLine        = 16 << 10 // bytes of a line, with its continuations
	maxEvents      = 10_000
	maxRecurring   = 200 // events that recur
	maxOccurrences = 200_000
	maxShifts      = 5000
	maxLabel       = 200 // bytes
	maxNames       = 20  // of a source
	readTime       = 5 * time.Second
)

// ReadCalendar returns the shifts of a calendar (RFC 5545) that overlap a span, by their start. The error is short and has no text of the
// calendar beyond names of its properties.
func ReadCalendar(text []byte, from, until time.Time, now func() time.Time) (shifts []identity.Shift, err error) {
	defer func() {
		if recover() != nil { // the libraries index into text from outside
			shifts, err = nil, errors.New("the calendar cannot be read")
		}
	}()
	if !bytes.HasPrefix(bytes.TrimLeft(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")), "\r\n\t "), []byte("BEGIN:VCALENDAR")) {
		return nil, errors.New("must be an iCalendar file, which begins with BEGIN:VCALENDAR")
	}
	if err := checkLines(text); err != nil {
		return nil, err
	}
	parsed, err := ics.ParseCalendarWithOptions(bytes.NewReader(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))),
		ics.WithUnknownPropertyHandler(ics.AcceptUnknownPropertyHandler))
	if err != nil {
		return nil, errors.New("must be an iCalendar file (RFC 5545) without malformed lines")
	}
	c := calendar{zone: time.UTC, from: from, until: until, now: now, deadline: now().Add(readTime)}
	for i := range parsed.CalendarProperties {
		if p := &parsed.CalendarProperties[i]; strings.EqualFold(p.IANAToken, "X-WR-TIMEZONE") {
			if zone, err := time.LoadLocation(p.Value); err == nil {
				c.zone = zone
			}
		}
	}
	return c.readShifts(parsed.Events())
}

// checkLines refuses long lines: the parser takes time by the square of their length.
func checkLines(text []byte) error {
	length, number := 0, 0
	for line := range bytes.Lines(text) {
		number++
		if line[0] != ' ' && line[0] != '\t' {
			length = 0
		}
		if length += len(line); length > maxLine {
			return fmt.Errorf("line %d must be at most %d bytes long", number, maxLine)
		}
	}
	return nil
}

// calendar reads the events of a calendar.
type calendar struct {
	zone        *time.Location // of times without a zone
	from, until time.Time
	now         func() time.Time
	deadline    time.Time
	recurring   int
	occurrences int
}

// event is one event of a calendar.
type event struct {
	number       int // in the calendar, from 1
	uid          string
	starts, ends time.Time
	recurrence   *time.Time // it replaces this occurrence of its series
	cancelled    bool
	rule         string
	added, left  []time.Time
	label        string
	names        [][]string
}

func (c *calendar) readShifts(list []*ics.VEvent) ([]identity.Shift, error) {
	if len(list) > maxEvents {
		return nil, fmt.Errorf("must have at most %d events", maxEvents)
	}
	events := make([]event, len(list))
	replaced := map[string]bool{} // occurrences that an event of their series replaces
	for i := range list {
		var err error
		if events[i], err = c.readEvent(i+1, list[i].Properties); err != nil {
			return nil, fmt.Errorf("event %d: %w", i+1, err)
		}
		if e := &events[i]; e.recurrence != nil {
			replaced[e.occurrence(*e.recurrence)] = true
		}
	}
	var shifts []identity.Shift
	for i := range events {
		e := &events[i]
		if e.cancelled {
			continue
		}
		starts, err := c.listStarts(e)
		if err != nil {
			return nil, fmt.Errorf("event %d: %w", e.number, err)
		}
		for _, at := range starts {
			if e.recurrence == nil && replaced[e.occurrence(at)] {
				continue
			}
			s := identity.Shift{Starts: at, Ends: e.endOf(at), Label: e.label, Names: e.names}
			if s.Ends.After(c.from) && s.Starts.Before(c.until) && s.Ends.After(s.Starts) {
				shifts = append(shifts, s)
			}
		}
		if len(shifts) > maxShifts {
			return nil, fmt.Errorf("must have at most %d shifts in the next weeks", maxShifts)
		}
	}
	slices.SortStableFunc(shifts, func(a, b identity.Shift) int { return cmp.Or(a.Starts.Compare(b.Starts), a.Ends.Compare(b.Ends)) })
	return shifts, nil
}

// occurrence names an occurrence of the event's series.
func (e *event) occurrence(at time.Time) string {
	return e.uid + "\x00" + at.UTC().Format(time.RFC3339)
}

// endOf returns the end of an occurrence, at the same time of the day as that of the first one: a change of the clock makes no gap between shifts.
func (e *event) endOf(starts time.Time) time.Time {
	if starts.Equal(e.starts) {
		return e.ends
	}
	first, last := e.starts, e.ends.In(e.starts.Location())
	days := int(dayOf(last).Sub(dayOf(first)) / (24 * time.Hour))
	at := starts.In(e.starts.Location())
	return time.Date(at.Year(), at.Month(), at.Day()+days, last.Hour(), last.Minute(), last.Second(), 0, at.Location())
}

func dayOf(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC)
}

// listStarts returns the starts of an event's occurrences that may overlap the span.
func (c *calendar) listStarts(e *event) ([]time.Time, error) {
	if e.rule == "" || e.recurrence != nil {
		return append([]time.Time{e.starts}, e.added...), nil
	}
	if c.recurring++; c.recurring > maxRecurring {
		return nil, fmt.Errorf("at most %d events may recur", maxRecurring)
	}
	if c.now().After(c.deadline) {
		return nil, errors.New("the rules of recurring events take too long to compute")
	}
	option, err := rrule.StrToROptionInLocation(e.rule, e.starts.Location())
	if err != nil {
		return nil, errors.New("RRULE must be a rule of RFC 5545")
	}
	if option.Freq > rrule.DAILY {
		return nil, errors.New("RRULE must recur by the day, week, month or year")
	}
	option.Dtstart = e.starts
	if option.Until.IsZero() || option.Until.After(c.until) {
		option.Until = c.until
	}
	rule, err := rrule.NewRRule(*option)
	if err != nil {
		return nil, errors.New("RRULE must be a rule of RFC 5545")
	}
	set := rrule.Set{}
	set.RRule(rule)
	set.SetRDates(e.added)
	set.SetExDates(e.left)
	length := e.ends.Sub(e.starts) + 2*time.Hour // more than a change of the clock
	var starts []time.Time
	next := set.Iterator()
	for at, more := next(); more && at.Before(c.until); at, more = next() {
		if c.occurrences++; c.occurrences > maxOccurrences {
			return nil, fmt.Errorf("recurring events must have at most %d occurrences since their first", maxOccurrences)
		}
		if at.Add(length).After(c.from) {
			starts = append(starts, at)
		}
	}
	return starts, nil
}

func (c *calendar) readEvent(number int, properties []ics.IANAProperty) (event, error) {
	e := event{number: number, uid: fmt.Sprint("event ", number)}
	var length *time.Duration
	var allDay, ended bool
	var attendees, summary, organizer []string
	for i := range properties {
		p := &properties[i].BaseProperty
		var err error
		switch strings.ToUpper(p.IANAToken) {
		case "UID":
			e.uid = p.Value
		case "DTSTART":
			allDay = isDate(p)
			e.starts, err = c.readTime(p, p.Value)
		case "DTEND":
			ended = true
			e.ends, err = c.readTime(p, p.Value)
		case "DURATION":
			length, err = readDuration(p.Value)
		case "RECURRENCE-ID":
			var at time.Time
			at, err = c.readTime(p, p.Value)
			e.recurrence = &at
		case "RRULE":
			if e.rule != "" {
				err = errors.New("must be given once")
			}
			e.rule = p.Value
		case "RDATE":
			e.added, err = c.readTimes(p, e.added)
		case "EXDATE":
			e.left, err = c.readTimes(p, e.left)
		case "STATUS":
			e.cancelled = strings.EqualFold(p.Value, "CANCELLED")
		case "SUMMARY":
			summary = append(summary, splitNames(p.Value)...)
			e.label = plain.Line(p.Value, maxLabel)
		case "ATTENDEE":
			attendees = append(attendees, addressNames(p)...)
		case "ORGANIZER":
			organizer = addressNames(p)
		}
		if err != nil {
			return e, fmt.Errorf("%s %w", strings.ToUpper(p.IANAToken), err)
		}
	}
	if e.starts.IsZero() {
		return e, errors.New("DTSTART is missing")
	}
	if !ended {
		e.ends = e.impliedEnd(length, allDay)
	}
	e.addNames(attendees, summary, organizer)
	if e.label == "" && len(e.names) > 0 {
		e.label = plain.Line(e.names[0][0], maxLabel)
	}
	return e, nil
}

// impliedEnd returns the end of an event without DTEND (RFC 5545, section 3.6.1).
func (e *event) impliedEnd(length *time.Duration, allDay bool) time.Time {
	switch {
	case length != nil:
		return e.starts.Add(*length)
	case allDay:
		return e.starts.AddDate(0, 0, 1)
	}
	return e.starts
}

// addNames adds lists of names, without those that are no names.
func (e *event) addNames(lists ...[]string) {
	for _, names := range lists {
		names = slices.DeleteFunc(names, func(name string) bool {
			return name == "" || len(name) > maxLabel || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl)
		})
		if len(names) > 0 {
			e.names = append(e.names, names[:min(len(names), maxNames)])
		}
	}
}

func isDate(p *ics.BaseProperty) bool {
	return len(p.Value) == len("20060102") || len(p.ICalParameters["VALUE"]) > 0 && strings.EqualFold(p.ICalParameters["VALUE"][0], "DATE")
}

// readTime reads a date or a time: of UTC, of the zone that the property names, or of the calendar's.
func (c *calendar) readTime(p *ics.BaseProperty, value string) (time.Time, error) {
	zone := c.zone
	if ids := p.ICalParameters["TZID"]; len(ids) > 0 {
		found, err := time.LoadLocation(ids[0])
		if err != nil || ids[0] == "Local" {
			return time.Time{}, errors.New("must have a time zone of the IANA database, such as Europe/Berlin")
		}
		zone = found
	}
	for _, form := range []struct {
		layout string
		zone   *time.Location
	}{{"20060102T150405Z", time.UTC}, {"20060102T150405", zone}, {"20060102", zone}} {
		if t, err := time.ParseInLocation(form.layout, value, form.zone); err == nil {
			return t, nil
		}
	}
	return time.Time{}, errors.New("must be a date or time such as 20261126T090000Z")
}

// readTimes adds a list of times. Periods are read by their start.
func (c *calendar) readTimes(p *ics.BaseProperty, list []time.Time) ([]time.Time, error) {
	for value := range strings.SplitSeq(p.Value, ",") {
		start, _, _ := strings.Cut(value, "/")
		t, err := c.readTime(p, start)
		if err != nil {
			return nil, err
		}
		if list = append(list, t); len(list) > maxEvents {
			return nil, fmt.Errorf("must have at most %d values", maxEvents)
		}
	}
	return list, nil
}

var durationForm = regexp.MustCompile(`^\+?P(?:(\d{1,4})W|(?:(\d{1,4})D)?(?:T(?:(\d{1,5})H)?(?:(\d{1,6})M)?(?:(\d{1,7})S)?)?)$`)

func readDuration(text string) (*time.Duration, error) {
	found := durationForm.FindStringSubmatch(text)
	if found == nil {
		return nil, errors.New("must be a duration such as P1D or PT12H")
	}
	var total time.Duration
	for i, unit := range []time.Duration{7 * 24 * time.Hour, 24 * time.Hour, time.Hour, time.Minute, time.Second} {
		n := 0
		for _, digit := range found[i+1] {
			n = 10*n + int(digit-'0')
		}
		total += time.Duration(n) * unit
	}
	return &total, nil
}

// addressNames returns the address and the name of an attendee or organizer.
func addressNames(p *ics.BaseProperty) []string {
	var names []string
	if len(p.Value) > len("mailto:") && strings.EqualFold(p.Value[:len("mailto:")], "mailto:") {
		names = append(names, strings.TrimSpace(p.Value[len("mailto:"):]))
	} else if strings.Contains(p.Value, "@") {
		names = append(names, strings.TrimSpace(p.Value))
	}
	for _, name := range p.ICalParameters["CN"] {
		names = append(names, strings.TrimSpace(name))
	}
	return names
}

var (
	addressForm   = regexp.MustCompile(`[^\s<>()\[\],;:"@]+@[^\s<>()\[\],;:"@]+`)
	separatorForm = regexp.MustCompile(`\s+[-–—|]\s+|[:,;/()\[\]]`)
	onCallForm    = regexp.MustCompile(`(?i)^(?:on[- ]?call\b[ :]*)|(?:\s+(?:is )?on[- ]?call\b.*)$`)
)

// splitNames returns the addresses in a summary and the parts that may be names: "On Call - Ann Lee - Payments" has "Ann Lee".
func splitNames(summary string) []string {
	summary = strings.TrimSpace(summary)
	names := addressForm.FindAllString(summary, maxNames)
	for _, part := range append([]string{summary}, separatorForm.Split(summary, maxNames)...) {
		for _, name := range []string{strings.TrimSpace(part), strings.TrimSpace(onCallForm.ReplaceAllString(strings.TrimSpace(part), ""))} {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}
