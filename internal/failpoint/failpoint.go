// Package failpoint owns named places where a test can kill or stop the process, to test recovery from a crash or a pause.
// Only builds with the tag "failpoint" or with the race detector have them. The tests run the program with the detector, and so they
// compile nothing a second time.
package failpoint

// The commit boundaries of a call's life.
const (
	SubmitBeforeCommit = "submit.before_commit"
	SubmitAfterCommit  = "submit.after_commit"
	DecideBeforeCommit = "decide.before_commit"
	DecideAfterCommit  = "decide.after_commit"
	ExpireBeforeCommit = "expire.before_commit"
	ExpireAfterCommit  = "expire.after_commit"
	ExecuteBeforeClaim = "execute.before_claim"
	ClaimBeforeCommit  = "claim.before_commit"
	ClaimAfterCommit   = "claim.after_commit"
	FinishBeforeCommit = "finish.before_commit"
	FinishAfterCommit  = "finish.after_commit"
	DeliverBefore      = "deliver.before_commit"

	// The moments of a conversation's turn.
	TurnAfterClaim = "turn.after_claim"
	TurnAfterModel = "turn.after_model" // the model has answered; nothing is stored
	TurnAfterReply = "turn.after_reply" // the reply is stored; none of its calls is made
	TurnAfterCalls = "turn.after_calls" // its calls are made; the turn has not ended

	// RefreshBeforeCommit comes after new tokens were received, before they are stored.
	RefreshBeforeCommit = "refresh.before_commit"
)

// Turns lists the failpoints of a conversation's turn, in order.
func Turns() []string {
	return []string{TurnAfterClaim, TurnAfterModel, TurnAfterReply, TurnAfterCalls}
}

// All lists the failpoints of a call, in order.
func All() []string {
	return []string{
		SubmitBeforeCommit, SubmitAfterCommit, DecideBeforeCommit, DecideAfterCommit,
		ExpireBeforeCommit, ExpireAfterCommit, ExecuteBeforeClaim, ClaimBeforeCommit,
		ClaimAfterCommit, FinishBeforeCommit, FinishAfterCommit, DeliverBefore,
	}
}
