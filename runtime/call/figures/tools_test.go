package figures_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/call/figures"
)

// sample is a call that countSamples counts.
type sample struct {
	id          uuid.UUID
	at          time.Time
	skill       uuid.UUID
	agent       uuid.UUID
	tool        string
	status      call.Status
	code, line  string
	httpStatus  int64
	sent, bytes int64
	took        [6]int64 // microseconds; 0 if not measured
	measured    bool
}

var (
	sampleTools = []string{"read", "write", "it's \"odd\" \u202e tool"}
	sampleEnds  = []call.Status{call.Succeeded, call.Succeeded, call.Succeeded, call.Failed, call.Failed, call.Unknown, call.Rejected, call.Denied, call.Invalid}
	sampleOpen  = []call.Status{call.Executing, call.Parked, call.Approved, call.NeedsConnection}
)

// endAtRandom gives a call a random end, with or without measurements.
func (s *sample) endAtRandom(r *rand.Rand) {
	s.status = sampleEnds[r.IntN(len(sampleEnds))]
	s.code, s.line, s.httpStatus, s.measured = "", "", 0, false
	switch s.status {
	case call.Failed:
		s.code, s.line = []string{"tool_error", "transport"}[r.IntN(2)], fmt.Sprintf("it broke in way %c", 'a'+rune(r.IntN(4)))
	case call.Invalid, call.Denied:
		s.code = "no_" + string(s.status)
	}
	if s.status != call.Succeeded && s.status != call.Failed || r.IntN(8) == 0 {
		return
	}
	s.measured = true
	s.took[0], s.took[5] = 1+r.Int64N(20), 1+r.Int64N(3000)
	if r.IntN(6) > 0 {
		s.sent, s.bytes = r.Int64N(5000), r.Int64N(1<<33)
		s.took[3] = 1 + int64(float64(int64(1)<<r.IntN(37))*r.Float64())
		s.httpStatus = []int64{0, 200, 201, 404, 500}[r.IntN(5)]
	}
}

func (s *sample) listDurations() []*int64 {
	if !s.measured {
		return nil
	}
	list := make([]*int64, 9)
	for i, n := range append([]int64{s.httpStatus, s.sent, s.bytes}, s.took[:]...) {
		if n > 0 || i > 0 && i < 3 && s.took[3] > 0 {
			list[i] = &n
		}
	}
	return list
}

func (w *world) insertSamples(t *testing.T, list []*sample) {
	t.Helper()
	check(t, postgres.InTx(t.Context(), w.db.Pool(), func(tx pgx.Tx) error {
		batch := &pgx.Batch{}
		for _, s := range list {
			batch.Queue(`INSERT INTO calls (id, agent_id, skill_id, skill_revision, created_at, gated, status, tool, exposed_name, pin, arguments,
					code, error_line, measured)
				VALUES ($1, $2, $3, 1, $4, false, $5, $6, 'x', sha256(''), '{}', nullif($7, ''), nullif($8, ''), $9)`,
				s.id, s.agent, s.skill, s.at, s.status, s.tool, s.code, s.line, s.listDurations())
		}
		return tx.SendBatch(t.Context(), batch).Close()
	}))
}

func (w *world) endSample(t *testing.T, s *sample) {
	t.Helper()
	w.db.Exec(`UPDATE calls SET status = $2, code = nullif($3, ''), error_line = nullif($4, ''), measured = $5 WHERE id = $1`,
		s.id, s.status, s.code, s.line, s.listDurations())
}

// newSamples returns n calls of the given time before now, some of which have not ended. moved is the offset of the database's
// clock.
func (w *world) newSamples(t *testing.T, r *rand.Rand, now time.Time, n int, within, moved time.Duration) []*sample {
	t.Helper()
	skills := w.skillIDs(t)
	list := make([]*sample, n)
	for i := range list {
		s := &sample{
			at:    now.Add(-time.Duration(r.Int64N(int64(within)))).Truncate(time.Microsecond),
			skill: skills[r.IntN(2)], agent: []uuid.UUID{agentA, w.agent.ID}[r.IntN(2)], tool: sampleTools[r.IntN(len(sampleTools))],
		}
		s.id = idAt(s.at.Add(-moved)) // ids follow the process's clock
		if s.endAtRandom(r); r.IntN(5) == 0 {
			s.status, s.measured, s.code, s.line, s.httpStatus = sampleOpen[r.IntN(len(sampleOpen))], false, "", "", 0
		}
		list[i] = s
	}
	return list
}

// skillIDs returns the ids of the skills, ordered by name.
func (w *world) skillIDs(t *testing.T) []uuid.UUID {
	t.Helper()
	files, err := w.agents.SkillByName(t.Context(), "files")
	check(t, err)
	open, err := w.agents.SkillByName(t.Context(), "open")
	check(t, err)
	return []uuid.UUID{files.ID, open.ID}
}

// formatInsights returns figures as text, to compare them.
func formatInsights(i *figures.ToolInsights) string {
	var b strings.Builder
	for _, f := range i.Tools {
		fmt.Fprintf(&b, "%s %q: %slast %s, %d: %d/%d, %+v\n", f.SkillID, f.Tool, formatCounts(f.Calls), f.Last.Format(time.RFC3339Nano), f.Exchanged, f.Sent, f.Received, f.Latency)
	}
	fmt.Fprintf(&b, "%+v\n%+v\n", i.HTTPStatuses, i.Steps)
	for _, e := range i.Errors {
		fmt.Fprintf(&b, "%s %q %s %s %d %q: %d, %s\n", e.SkillID, e.Tool, e.Status, e.Code, e.HTTPStatus, e.Line, e.Calls, e.Last.Format(time.RFC3339Nano))
	}
	return b.String()
}

// countSamples computes the figures of a window directly from the samples. Durations are rounded to the middle of their bucket.
func countSamples(skills []uuid.UUID, list []*sample, from, to time.Time, q figures.ToolQuery) string {
	var want figures.ToolInsights
	tools, errs, statuses := map[string]*figures.ToolFigures{}, map[string]*figures.ErrorFigures{}, map[int]int{}
	took, steps := map[string][]int64{}, [6][]int64{}
	for _, s := range list {
		if s.at.Before(from) || !s.at.Before(to) || q.Skill != "" && q.Skill != s.skill.String() || q.Agent != "" && q.Agent != s.agent.String() ||
			q.Tool != "" && q.Tool != s.tool {
			continue
		}
		key := s.skill.String() + s.tool
		if tools[key] == nil {
			tools[key] = &figures.ToolFigures{SkillID: s.skill, Tool: s.tool, Calls: figures.Counts{}}
		}
		f := tools[key]
		f.Calls[s.status]++
		if s.at.After(f.Last) {
			f.Last = s.at.UTC()
		}
		switch s.status {
		case call.Failed, call.Unknown, call.Invalid, call.Denied:
			group := fmt.Sprint(key, s.status, s.code, s.httpStatus*b2i(s.measured), s.line)
			if errs[group] == nil {
				errs[group] = &figures.ErrorFigures{SkillID: s.skill, Tool: s.tool, Status: s.status, Code: s.code, HTTPStatus: int(s.httpStatus * b2i(s.measured)), Line: s.line}
			}
			errs[group].Calls++
			if s.at.After(errs[group].Last) {
				errs[group].Last = s.at.UTC()
			}
		}
		if !s.measured {
			continue
		}
		if s.httpStatus > 0 {
			statuses[int(s.httpStatus)]++
		}
		if s.took[3] > 0 {
			f.Exchanged++
			f.Sent, f.Received = f.Sent+s.sent, f.Received+s.bytes
			took[key] = append(took[key], s.took[3])
		}
		for i, us := range s.took {
			if us > 0 {
				steps[i] = append(steps[i], us)
			}
		}
	}
	for key, f := range tools {
		f.Latency = latencyOf(took[key])
		want.Tools = append(want.Tools, *f)
	}
	slices.SortFunc(want.Tools, func(a, b figures.ToolFigures) int {
		return cmp.Or(cmp.Compare(b.Calls.Total(), a.Calls.Total()),
			slices.Index(skills, a.SkillID)-slices.Index(skills, b.SkillID), cmp.Compare(a.Tool, b.Tool))
	})
	for status, n := range statuses {
		want.HTTPStatuses = append(want.HTTPStatuses, figures.StatusFigures{HTTPStatus: status, Calls: n})
	}
	slices.SortFunc(want.HTTPStatuses, func(a, b figures.StatusFigures) int { return a.HTTPStatus - b.HTTPStatus })
	for i, list := range steps {
		if len(list) > 0 {
			want.Steps = append(want.Steps, figures.StepFigures{Step: call.PipelineSteps()[i], Latency: latencyOf(list)})
		}
	}
	for _, e := range errs {
		want.Errors = append(want.Errors, *e)
	}
	sort.Slice(want.Errors, func(i, j int) bool {
		a, b := want.Errors[i], want.Errors[j]
		if a.Calls != b.Calls {
			return a.Calls > b.Calls
		}
		return a.Last.After(b.Last)
	})
	want.Errors = want.Errors[:min(len(want.Errors), figures.MaxErrors)]
	return formatInsights(&want)
}

func b2i(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func latencyOf(us []int64) figures.Latency {
	if len(us) == 0 {
		return figures.Latency{}
	}
	slices.Sort(us)
	at := func(hundredths int) time.Duration { return middleOfBucket(us[(len(us)*hundredths+99)/100-1]) }
	return figures.Latency{Count: len(us), P50: at(50), P95: at(95), P99: at(99)}
}

// middleOfBucket returns the middle of a duration's bucket. Below 16 µs each microsecond is a bucket; above, each doubling has eight.
func middleOfBucket(us int64) time.Duration {
	width := int64(1)
	for us/width >= 16 {
		width *= 2
	}
	first := us / width * width
	return time.Duration(2*first+width-1) * time.Microsecond / 2
}

func (w *world) checkTools(t *testing.T, when string, list []*sample, from, to time.Time, q figures.ToolQuery) {
	t.Helper()
	q.From, q.To, q.Details = from.Format(time.RFC3339), to.Format(time.RFC3339), true
	found, err := w.figures.ReadTools(t.Context(), q)
	check(t, err)
	if got, want := formatInsights(&found), countSamples(w.skillIDs(t), list, found.Window.From, found.Window.To, q); got != want {
		t.Errorf("%s, from %s to %s, %+v:\ngot\n%s\nwant\n%s", when, from, to, q, got, want)
	}
}

// The figures equal a direct count while two services count at once, calls end late, and the clock moves.
func TestToolInsightsAreExact(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := w.newFigures()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	now := time.Now().UTC()
	list := w.newSamples(t, r, now.Add(-time.Hour), 600, 5*24*time.Hour, 0)
	w.insertSamples(t, list)
	queries := []figures.ToolQuery{
		{},
		{Query: figures.Query{Skill: w.skillIDs(t)[0].String()}},
		{Query: figures.Query{Agent: w.agent.ID.String()}, Tool: sampleTools[2]},
	}
	whole := func(when string) {
		t.Helper()
		for _, q := range queries {
			w.checkTools(t, when, list, now.Add(-6*24*time.Hour), now.Add(6*time.Hour), q)
			from := now.Add(-time.Duration(r.IntN(120)) * time.Hour)
			w.checkTools(t, when, list, from, from.Add(time.Duration(1+r.IntN(90))*time.Hour), q)
		}
	}
	both := func() {
		t.Helper()
		ended := make(chan error, 2)
		for _, s := range []*figures.Service{w.figures, other} {
			go func() { ended <- s.Count(context.WithoutCancel(t.Context())) }()
		}
		check(t, cmp.Or(<-ended, <-ended))
	}
	whole("not counted")
	both()
	whole("counted")
	for round := range 3 {
		ending := make(chan struct{})
		open := slices.DeleteFunc(slices.Clone(list), func(s *sample) bool { return s.status.Final() })
		some := open[:len(open)/2]
		for _, s := range some {
			s.endAtRandom(r)
		}
		go func() { // while both services count
			defer close(ending)
			for _, s := range some {
				w.endSample(t, s)
			}
		}()
		both()
		<-ending
		whole(fmt.Sprintf("round %d, some have ended", round))
		both()
		whole(fmt.Sprintf("round %d, they are counted", round))
		moved := time.Duration(2*(round+1)) * time.Hour
		w.db.MoveClock(moved.String())
		late := w.newSamples(t, r, now.Add(moved), 40, 5*time.Minute, moved)
		w.insertSamples(t, late)
		list = append(list, late...)
		whole(fmt.Sprintf("round %d, more were made", round))
	}
	for _, s := range list {
		if !s.status.Final() {
			s.endAtRandom(r)
			w.endSample(t, s)
		}
	}
	w.db.MoveClock("12 hours")
	both()
	w.db.Exec(`DELETE FROM calls`) // figures must now come from the counts alone
	whole("all is counted")
}
