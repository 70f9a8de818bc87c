package call

import (
	"cmp"
	"strconv"
	"time"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// PipelineStep is a step of the processing of a call; see [PipelineSteps].
type PipelineStep string

// The steps of a call, in their order. Calls of an MCP server have only validate, log and call.
const (
	StepValidate    PipelineStep = "validate"    // checks the arguments; of an approved call: checks again everything that the decision covers
	StepResolve     PipelineStep = "resolve"     // builds the request from the arguments
	StepCredentials PipelineStep = "credentials" // adds the skill's credentials to the request
	StepCall        PipelineStep = "call"        // sends the request and reads the answer
	StepTransform   PipelineStep = "transform"   // builds the result from the answer
	StepLog         PipelineStep = "log"         // records, before the call is sent, that it is being sent
)

// PipelineSteps returns all steps in their order.
func PipelineSteps() [6]PipelineStep {
	return [...]PipelineStep{StepValidate, StepResolve, StepCredentials, StepCall, StepTransform, StepLog}
}

// Measures are the sizes and times of a call that was sent. If it was sent more than once, bytes and times are sums, and the status
// is that of the last answer.
type Measures struct {
	HTTPStatus int // of the answer; zero: none, or the skill is not an HTTP API
	// Sent and Received are the bytes of the bodies, and over MCP of the arguments and the result. They are known after the step call.
	Sent, Received int64
	// Took are the durations of the steps in the order of [PipelineSteps]; zero: the step did not run. The least other value is 1 µs.
	Took [6]time.Duration
}

// callStep is the index of the step call in [PipelineSteps].
const callStep = 3

// Exchanged reports whether a request was sent to the server.
func (m *Measures) Exchanged() bool { return m.Took[callStep] > 0 }

// addStep adds the duration of a step. It ignores unknown steps.
func (m *Measures) addStep(step PipelineStep, took time.Duration) {
	for i, known := range PipelineSteps() {
		if known == step {
			m.Took[i] += max(took.Round(time.Microsecond), time.Microsecond)
		}
	}
}

// ensureMeasures returns the measures of the call, which it makes if there are none.
func (c *Call) ensureMeasures() *Measures {
	if c.Measures == nil {
		c.Measures = &Measures{}
	}
	return c.Measures
}

// addExchange adds the measures of a source.
func (c *Call) addExchange(e *tool.Exchange) {
	if len(e.Steps) == 0 {
		return
	}
	m := c.ensureMeasures()
	m.HTTPStatus = cmp.Or(e.Status, m.HTTPStatus) // of the last answer
	m.Sent, m.Received = m.Sent+e.Sent, m.Received+e.Received
	for i := range e.Steps {
		m.addStep(PipelineStep(e.Steps[i].Name), e.Steps[i].Took)
	}
}

// encodeColumn returns the value of the column measured, a PostgreSQL array. Nil: nothing was measured.
func (m *Measures) encodeColumn() *string {
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

// readMeasures decodes the column measured.
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
