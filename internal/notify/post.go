package notify

import (
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/receiver"
)

const rest = time.Minute // after a refusal

// outcomeOf is what a receiver's answer means to its turn. The log has what only it may say of the target.
func (s *Service) outcomeOf(target uuid.UUID, a receiver.Answer) outcome {
	if a.Cause != nil {
		s.Logger.Warn("a notification could not be delivered", "target", target, "error", a.Cause)
	}
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
