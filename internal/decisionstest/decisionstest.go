// Package decisionstest generates a month of calls and the decisions of reviewers on them, for tests of code that learns from decisions or
// judges calls. It knows nothing of that code.
//
// The company is a shop for outdoor gear with about sixty employees: six agents, nineteen people who use or review them, and 27 tools. Most calls
// are harmless variations of a few habits, and reviewers approve them. Rejections are planted: each has a kind, and each kind has a rule in
// words ([Kinds]). No approved call breaks a rule of a kind. A rejected call comes from the same code as an approved one, and differs from
// it only in what the rule says.
package decisionstest

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"time"
	_ "time/tzdata" // machines may lack the time zones

	"github.com/google/uuid"
)

// Outcome is how an approval ended.
type Outcome string

// The outcomes.
const (
	Approved Outcome = "approved"
	Edited   Outcome = "edited" // a reviewer changed the arguments and approved the call
	Rejected Outcome = "rejected"
	Expired  Outcome = "expired" // no reviewer decided in time
)

// Decision is a call and the decision on it.
type Decision struct {
	ID        uuid.UUID
	At        time.Time // when the agent made the call
	Agent     string
	Principal string // e-mail address of the person for whom the agent calls; "" if the agent calls for nobody
	Skill     string
	Tool      string
	Pin       [sha256.Size]byte // of the tool's definition at the time of the call
	Arguments json.RawMessage   // as the agent wrote them, without white space between tokens

	Outcome         Outcome
	EditedArguments json.RawMessage // the approved arguments, if the outcome is [Edited]
	DecidedAt       time.Time
	DecidedBy       string // e-mail address of the reviewer; "" if the outcome is [Expired]
	Reason          string // of a rejection; often empty

	// Planted is the name of the [Kind] of a rejected call, or "". Only judges of the outcome may read it: a real call has no such mark.
	Planted string
}

// Weeks is the number of generated weeks.
const Weeks = 4

// Zone is the time zone of the company. Its summer time ends at the end of week 3.
func Zone() *time.Location {
	return zone
}

//nolint:gochecknoglobals // a constant
var zone = func() *time.Location {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		panic(err) // time/tzdata has it
	}
	return zone
}()

// WeekStart returns the first moment of a week, a Monday. Week 1 is the first one.
func WeekStart(week int) time.Time {
	return time.Date(2026, time.October, 5+7*(week-1), 0, 0, 0, 0, zone)
}

// Split returns the calls that were made before a week, and those that were made in it. The last decisions on the calls before may fall
// into the week.
func Split(decisions []Decision, week int) (before, in []Decision) {
	start, end := WeekStart(week), WeekStart(week+1)
	for _, d := range decisions {
		switch {
		case d.At.Before(start):
			before = append(before, d)
		case d.At.Before(end):
			in = append(in, d)
		}
	}
	return before, in
}

// Generate returns the calls of four weeks in the order in which they were made. The same seed gives the same calls.
func Generate(seed uint64) []Decision {
	m := newMonth(seed)
	var slots []slot
	for i := range streams {
		slots = append(slots, m.planStream(&streams[i])...)
	}
	for i := range plants {
		slots = append(slots, m.planPlant(&plants[i])...)
	}
	slices.SortStableFunc(slots, func(a, b slot) int { return a.at.Compare(b.at) })
	decisions := make([]Decision, 0, len(slots))
	for _, s := range slots {
		if d, ok := m.makeDecision(s); ok {
			decisions = append(decisions, d)
		}
	}
	return decisions
}

// slot is the time of a call that is yet to be made.
type slot struct {
	at     time.Time // in the company's zone
	stream *stream
	plant  *plant // nil for ordinary calls
}

// month is the state of a generation. Calls are made in the order of their times.
type month struct {
	*rand.Rand
	source *rand.ChaCha8

	tickets   int
	orders    int
	invoices  map[string]int // last invoice number by its prefix
	payments  []call         // that were approved
	customers []customer
}

func newMonth(seed uint64) *month {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	source := rand.NewChaCha8(key)
	m := &month{
		Rand:   rand.New(source), //nolint:gosec // repeatable by intent
		source: source, tickets: 48210, orders: 104233, invoices: map[string]int{},
	}
	m.customers = m.makeCustomers(400)
	return m
}

// planStream draws the times of a stream's ordinary calls.
func (m *month) planStream(s *stream) []slot {
	var slots []slot
	for day := 7 * (max(s.fromWeek, 1) - 1); day < 7*Weeks; day++ {
		mean := s.workday
		if day%7 >= 5 {
			mean = s.weekend
		}
		for range int(mean*(0.75+m.Float64()/2) + m.Float64()) {
			slots = append(slots, slot{at: m.drawTime(day, s.hours), stream: s})
		}
	}
	return slots
}

// planPlant draws the times of a plant's calls.
func (m *month) planPlant(p *plant) []slot {
	var slots []slot
	for week, count := range p.weeks {
		for range count {
			s := findStream(p.streams[len(slots)%len(p.streams)])
			hours, days := s.hours, 5
			if p.hours != nil {
				hours = p.hours
			}
			if s.weekend > 0 {
				days = 7
			}
			day := m.IntN(days)
			if len(p.days) > 0 {
				day = pick(m, p.days)
			}
			slots = append(slots, slot{at: m.drawTime(7*week+day, hours), stream: s, plant: p})
		}
	}
	return slots
}

func (m *month) drawTime(day int, hours []int) time.Time {
	first := WeekStart(1)
	return time.Date(first.Year(), first.Month(), first.Day()+day, pick(m, hours), m.IntN(60), m.IntN(60), m.IntN(1000)*1e6, zone)
}

// call is a call that is being made.
type call struct {
	at        time.Time
	stream    *stream
	principal string
	link      string // replaces the link in texts
	arguments object
}

// makeDecision makes the call of a slot. It returns false if the call is not made at this time.
func (m *month) makeDecision(s slot) (Decision, bool) {
	def := findDefinition(s.stream.skill, s.stream.tool, s.at)
	if s.plant == nil && !s.stream.until.IsZero() && !s.at.Before(s.stream.until) {
		return Decision{}, false
	}
	c := &call{at: s.at, stream: s.stream, principal: m.pickPrincipal(s)}
	if s.plant != nil && s.plant.before != nil {
		s.plant.before(m, c)
	}
	c.arguments = s.stream.build(m, c)
	if s.plant != nil && s.plant.change != nil && !s.plant.change(m, c) {
		return Decision{}, false
	}
	writing := m.drawWriting(s.stream.agent)
	c.arguments = c.arguments.sort(def.members)
	d := Decision{
		ID: uuid.Must(uuid.NewRandomFromReader(m.source)), At: s.at.UTC(), Agent: s.stream.agent, Principal: c.principal,
		Skill: def.Skill, Tool: def.Name, Pin: def.pin, Arguments: c.arguments.encode(writing),
	}
	d.Outcome, d.DecidedAt, d.DecidedBy = Approved, d.At.Add(m.drawDelay(s.at)), m.pickReviewer(s.stream.team, c.principal)
	switch fate := m.Float64(); {
	case s.plant != nil:
		d.Outcome, d.Reason, d.Planted = Rejected, pick(m, s.plant.reasons), s.plant.Name
		if fate < 0.25 {
			d.Reason = ""
		}
	case fate < 0.04:
		d.Outcome, d.DecidedAt, d.DecidedBy = Expired, d.At.Add(expiry), ""
	case fate < 0.09 && s.stream.edit != nil:
		edited := s.stream.edit(m, c).encode(writing)
		d.Outcome, d.EditedArguments = Edited, edited
	}
	if s.stream.tool == "post_payment" && (d.Outcome == Approved || d.Outcome == Edited) {
		m.payments = append(m.payments, *c)
	}
	return d, true
}

// expiry is the time that reviewers have.
const expiry = 12 * time.Hour

// drawDelay draws the time until a reviewer decides: minutes in office hours, longer at other times.
func (m *month) drawDelay(at time.Time) time.Duration {
	mean := 5 * time.Minute
	if !inOffice(at) {
		mean = 50 * time.Minute
	}
	return min(time.Duration(float64(mean)*m.ExpFloat64())+8*time.Second, expiry-time.Minute).Round(time.Millisecond)
}

func inOffice(at time.Time) bool {
	return at.Weekday() != time.Saturday && at.Weekday() != time.Sunday && at.Hour() >= 8 && at.Hour() < 18
}

// pickPrincipal picks the person for whom the stream's agent calls.
func (m *month) pickPrincipal(s slot) string {
	users := s.stream.users
	if s.plant != nil && s.plant.users != nil {
		users = s.plant.users
	}
	var present []user
	for _, u := range users {
		if isPresent(u.name, s.at) {
			present = append(present, u)
		}
	}
	return pickWeighted(m, present, func(u user) int { return u.weight }).address()
}

func (m *month) pickReviewer(team, principal string) string {
	names := slices.DeleteFunc(slices.Clone(reviewers[team]), func(name string) bool { return address(name) == principal })
	if m.IntN(2) == 0 {
		return address(names[0]) // decides most calls
	}
	return address(pick(m, names))
}

// pick returns one of several values.
func pick[T any](m *month, values []T) T {
	return values[m.IntN(len(values))]
}

func pickWeighted[T any](m *month, values []T, weight func(T) int) T {
	sum := 0
	for _, v := range values {
		sum += weight(v)
	}
	at := m.IntN(sum)
	for _, v := range values {
		if at -= weight(v); at < 0 {
			return v
		}
	}
	return values[len(values)-1]
}
