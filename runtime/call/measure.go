package call

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/holdpoint/holdpoint/internal/telemetry"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// PipelineStep is a stage that a call passes through; see [PipelineSteps].
type PipelineStep string

// The steps of a call, in the order they are taken. An MCP server has no others than validate, log and call.
const (
	StepValidate    PipelineStep = "validate"    // its arguments are checked; of one that was approved: all that was decided about is, again
	StepResolve     PipelineStep = "resolve"     // its arguments become a request
	StepCredentials PipelineStep = "credentials" // the skill's are put into it
	StepCall        PipelineStep = "call"        // the request is sent and answered
	StepTransform   PipelineStep = "transform"   // the answer becomes a result
	StepLog         PipelineStep = "log"         // it is written to the log that the call is being sent, before it is
)

// PipelineSteps are all of them.
func PipelineSteps() [6]PipelineStep {
	return [...]PipelineStep{StepValidate, StepResolve, StepCredentials, StepCall, StepTransform, StepLog}
}

// Measures are what was measured of a call that was sent. Of one that was sent more than once, bytes and times are sums, and the
// status is the last one's.
type Measures struct {
	HTTPStatus int // of the answer; zero: there was none, or the skill is no HTTP API
	// Bytes of the bodies; over MCP of the arguments and the result. They are known when the step call was taken.
	Sent, Received int64
	// Took are the times of the steps, as [PipelineSteps] orders them; zero: it was not taken. One that was took at least a microsecond.
	Took [6]time.Duration
}

// callStep is where [Measures] has the step call.
const callStep = 3

// Exchanged reports whether anything was exchanged with the server.
func (m *Measures) Exchanged() bool { return m.Took[callStep] > 0 }

// add adds a step. One that is not known here is left out.
func (m *Measures) add(step PipelineStep, took time.Duration) {
	for i, known := range PipelineSteps() {
		if known == step {
			m.Took[i] += max(took.Round(time.Microsecond), time.Microsecond)
		}
	}
}

// measures are those of the call, which are being made.
func (c *Call) measures() *Measures {
	if c.Measures == nil {
		c.Measures = &Measures{}
	}
	return c.Measures
}

// exchanged adds what a source measured.
func (c *Call) exchanged(e *tool.Exchange) {
	if len(e.Steps) == 0 {
		return
	}
	m := c.measures()
	m.HTTPStatus = cmp.Or(e.Status, m.HTTPStatus) // of the last answer that there was
	m.Sent, m.Received = m.Sent+e.Sent, m.Received+e.Received
	for i := range e.Steps {
		m.add(PipelineStep(e.Steps[i].Name), e.Steps[i].Took)
	}
}

// took notes a step that this package took, and writes its span below the call's.
func (s *Service) took(c *Call, step PipelineStep, began time.Time) {
	now := s.Now()
	c.measures().add(step, now.Sub(began))
	s.traceStep(c, string(step), began, now)
}

func (s *Service) traceStep(c *Call, name string, from, to time.Time) {
	if !c.trace.Recorded() {
		return
	}
	s.Traces.Child(c.trace, telemetry.Ended{
		Name: name, From: from, To: to, Attributes: []attribute.KeyValue{telemetry.CallID.String(c.ID.String())},
	})
}

// validate checks the call's arguments.
func (s *Service) validate(ctx context.Context, c *Call, schemas *tool.Schemas) (*refusal, error) {
	began := s.Now()
	r, err := s.schemas.checkArguments(ctx, schemas, c.Arguments)
	s.took(c, StepValidate, began)
	return r, err
}

// stored is the form of the column measured: an array of PostgreSQL. Nil: nothing was measured.
func (m *Measures) stored() *string {
	if m == nil {
		return nil
	}
	b := append(make([]byte, 0, 64), '{')
	number := func(n int64, known bool) {
		if len(b) > 1 {
			b = append(b, ',')
		}
		if !known {
			b = append(b, "NULL"...)
			return
		}
		b = strconv.AppendInt(b, n, 10)
	}
	number(int64(m.HTTPStatus), m.HTTPStatus > 0)
	number(m.Sent, m.Exchanged())
	number(m.Received, m.Exchanged())
	for _, took := range m.Took {
		number(took.Microseconds(), took > 0)
	}
	text := string(append(b, '}'))
	return &text
}

// readMeasures reads the column.
func readMeasures(stored []*int64) *Measures {
	if stored == nil {
		return nil
	}
	at := func(i int) int64 {
		if i < len(stored) && stored[i] != nil {
			return *stored[i]
		}
		return 0
	}
	m := &Measures{HTTPStatus: int(at(0)), Sent: at(1), Received: at(2)}
	for i := range m.Took {
		m.Took[i] = time.Duration(at(3+i)) * time.Microsecond
	}
	return m
}
