package notify

import (
	"time"

	"github.com/holdpoint/holdpoint/internal/receiver"
)

const rest = time.Minute // after a refusal

// outcomeOf is what a receiver's answer means to its turn.
func (s *Service) outcomeOf(a receiver.Answer) outcome {
	switch {
	case a.Verdict == receiver.Taken:
		return outcome{state: delivered}
	case a.Verdict == receiver.Refused:
		return outcome{state: refused, err: a.Err, wait: rest}
	case a.RetryAfter > 0:
		return outcome{state: later, err: a.Err, wait: min(max(a.RetryAfter, s.Gap), receiver.MaxRetryAfter), asked: true}
	}
	return outcome{state: later, err: a.Err}
}
