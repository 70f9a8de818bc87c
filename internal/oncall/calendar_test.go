package oncall_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/internal/oncall"
)

// calendarOf makes a calendar of lines.
func calendarOf(lines ...string) []byte {
	return []byte("BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//test//EN\r\n" + strings.Join(lines, "\r\n") + "\r\nEND:VCALENDAR\r\n")
}

func eventOf(lines ...string) string {
	return "BEGIN:VEVENT\r\n" + strings.Join(lines, "\r\n") + "\r\nEND:VEVENT"
}

func at(text string) time.Time {
	t, err := time.Parse("2006-01-02 15:04", text)
	if err != nil {
		panic(err)
	}
	return t
}

// read returns the shifts from 2026-10-20 for two weeks, such as "20 07:00-21 07:00 ann".
func read(t *testing.T, text []byte) []string {
	t.Helper()
	shifts, err := oncall.ReadCalendar(text, at("2026-10-20 00:00"), at("2026-11-03 00:00"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	list := make([]string, len(shifts))
	for i, s := range shifts {
		list[i] = fmt.Sprintf("%s-%s %s", s.Starts.UTC().Format("02 15:04"), s.Ends.UTC().Format("02 15:04"), s.Label)
	}
	return list
}

func wantShifts(t *testing.T, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("shifts\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A daily rotation goes on at the same time of the day when the clocks change, without a gap.
func TestDailyRotationOverAChangeOfTheClock(t *testing.T) {
	t.Parallel()
	got := read(t, calendarOf(
		eventOf("UID:a", "SUMMARY:ann", "DTSTART;TZID=Europe/Berlin:20261023T090000", "DTEND;TZID=Europe/Berlin:20261024T090000", "RRULE:FREQ=DAILY;INTERVAL=2;UNTIL=20261027T235900Z"),
		eventOf("UID:b", "SUMMARY:bea", "DTSTART;TZID=Europe/Berlin:20261024T090000", "DTEND;TZID=Europe/Berlin:20261025T090000", "RRULE:FREQ=DAILY;INTERVAL=2;COUNT=2"),
	))
	wantShifts(t, got, "23 07:00-24 07:00 ann", "24 07:00-25 08:00 bea", "25 08:00-26 08:00 ann", "26 08:00-27 08:00 bea", "27 08:00-28 08:00 ann")
}

// Somebody else takes one day of a series; another day is left out, another one is cancelled, and one is added.
func TestOverrides(t *testing.T) {
	t.Parallel()
	got := read(t, calendarOf(
		eventOf("UID:a", "SUMMARY:ann", "DTSTART:20201020T060000Z", "DURATION:PT12H", "RRULE:FREQ=DAILY;UNTIL=20261025T000000Z",
			"EXDATE:20261021T060000Z,20261020T060000Z", "RDATE:20261101T060000Z"),
		eventOf("UID:a", "RECURRENCE-ID:20261022T060000Z", "SUMMARY:bea", "DTSTART:20261022T100000Z", "DTEND:20261022T180000Z"),
		eventOf("UID:a", "RECURRENCE-ID:20261023T060000Z", "SUMMARY:ann", "DTSTART:20261023T060000Z", "DTEND:20261023T180000Z", "STATUS:CANCELLED"),
		eventOf("UID:b", "SUMMARY:over", "DTSTART:20261010T060000Z", "DTEND:20261019T060000Z"),
		eventOf("UID:c", "SUMMARY:day", "DTSTART;VALUE=DATE:20261102"),
		eventOf("UID:d", "SUMMARY:moment", "DTSTART:20261022T100000Z"),
	))
	wantShifts(t, got, "22 10:00-22 18:00 bea", "24 06:00-24 18:00 ann", "01 06:00-01 18:00 ann", "02 00:00-03 00:00 day")
}

// Attendees are more specific than the summary, which is more specific than the organizer.
func TestNames(t *testing.T) {
	t.Parallel()
	for lines, want := range map[string]string{
		"SUMMARY:On Call - Ann Lee - Payments\r\nORGANIZER;CN=Calendar:mailto:cal@example.com": `[["On Call - Ann Lee - Payments" "- Ann Lee - Payments" "On Call" "Ann Lee" "Payments"] ["cal@example.com" "Calendar"]]`,
		"SUMMARY:On call\r\nATTENDEE;CN=\"Lee, Ann\":MAILTO:ann@example.com":                   `[["ann@example.com" "Lee, Ann"] ["On call"]]`,
		"SUMMARY:bea@example.com (Payments)":                                                   `[["bea@example.com" "bea@example.com (Payments)" "Payments"]]`,
		"SUMMARY:Ann Lee is on call for Payments":                                              `[["Ann Lee is on call for Payments" "Ann Lee"]]`,
	} {
		text := calendarOf(eventOf(append(strings.Split(lines, "\r\n"), "UID:a", "DTSTART:20261022T100000Z", "DTEND:20261022T180000Z")...))
		shifts, err := oncall.ReadCalendar(text, at("2026-10-20 00:00"), at("2026-11-03 00:00"), time.Now)
		if err != nil || len(shifts) != 1 {
			t.Errorf("%s: %v, %v", lines, shifts, err)
			continue
		}
		if got := fmt.Sprintf("%q", shifts[0].Names); got != want {
			t.Errorf("%s:\n%s, want\n%s", lines, got, want)
		}
	}
}

func TestCalendarIsRefused(t *testing.T) {
	t.Parallel()
	shift := []string{"UID:a", "DTSTART:20261022T100000Z", "DTEND:20261022T180000Z"}
	with := func(lines ...string) []byte { return calendarOf(eventOf(append(lines, shift...)...)) }
	for want, text := range map[string][]byte{
		"must be an iCalendar file, which begins":       []byte("<html>Sign in</html>"),
		"without malformed lines":                       calendarOf("BEGIN:VEVENT", "no colon", "END:VEVENT"),
		"event 1: DTSTART is missing":                   calendarOf(eventOf("UID:a", "SUMMARY:ann")),
		"event 1: DTSTART must have a time zone":        calendarOf(eventOf("UID:a", "DTSTART;TZID=W. Europe Standard Time:20261022T100000")),
		"event 1: DTSTART must be a date or time":       calendarOf(eventOf("UID:a", "DTSTART:tomorrow")),
		"event 1: DURATION must be a duration":          calendarOf(eventOf("UID:a", "DTSTART:20261022T100000Z", "DURATION:long")),
		"event 1: RRULE must recur by the day":          with("RRULE:FREQ=SECONDLY"),
		"event 1: RRULE must be a rule":                 with("RRULE:FREQ=DAILY;BYDAY=XX"),
		"event 1: RRULE must be given once":             with("RRULE:FREQ=DAILY", "RRULE:FREQ=WEEKLY"),
		"recurring events must have at most":            calendarOf(eventOf("UID:a", "DTSTART:19000101T000000Z", "RRULE:FREQ=DAILY;BYHOUR=0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23;BYMINUTE=0,10,20,30,40,50")),
		"line 5 must be at most":                        with("DESCRIPTION:" + strings.Repeat("x", 20_000)),
		"event 1: RECURRENCE-ID must be a date or time": with("RECURRENCE-ID:x"),
		"must have at most 10000 events":                calendarOf(strings.Repeat(eventOf(shift...)+"\r\n", 10_001)),
		"must have at most 5000 shifts":                 calendarOf(strings.Repeat(eventOf(shift...)+"\r\n", 5_001)),
		"at most 200 events may recur":                  calendarOf(strings.Repeat(eventOf("DTSTART:20261022T100000Z", "RRULE:FREQ=DAILY;COUNT=1")+"\r\n", 201)),
	} {
		shifts, err := oncall.ReadCalendar(text, at("2026-10-20 00:00"), at("2026-11-03 00:00"), time.Now)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d shifts, %v; want %q", len(shifts), err, want)
		}
	}
}

func FuzzReadCalendar(f *testing.F) {
	f.Add(string(calendarOf(eventOf("UID:a", "SUMMARY:ann", "DTSTART;TZID=Europe/Berlin:20261023T090000", "DTEND;TZID=Europe/Berlin:20261024T090000", "RRULE:FREQ=DAILY;INTERVAL=2"))))
	f.Add(string(calendarOf(eventOf("UID:a", "RECURRENCE-ID:20261022T060000Z", "ATTENDEE;CN=\"a\":mailto:a@b", "DTSTART:20261022T100000Z", "DURATION:P1D", "EXDATE:20261021T060000Z"))))
	f.Add("BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nATTENDEE;CN=x")
	f.Fuzz(func(t *testing.T, text string) {
		from, until := at("2026-10-20 00:00"), at("2026-11-03 00:00")
		shifts, err := oncall.ReadCalendar([]byte(text), from, until, time.Now)
		for _, s := range shifts {
			if err != nil || !s.Ends.After(s.Starts) || !s.Ends.After(from) || !s.Starts.Before(until) {
				t.Errorf("shift %+v, %v", s, err)
			}
		}
	})
}
