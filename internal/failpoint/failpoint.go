// Package failpoint owns the named places where a test may kill or stop the process,
// to see what a crash or a pause there leaves behind. Builds without the failpoint tag
// hold no such thing.
package failpoint

// The commit boundaries of a call's life, and the moment its request is out.
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
	TurnAfterModel = "turn.after_model" // the model has answered, and nothing of it is written
	TurnAfterReply = "turn.after_reply" // the reply is written, and none of its calls is made
	TurnAfterCalls = "turn.after_calls" // they are made, and the turn is not over yet

	// RefreshBeforeCommit is passed with new tokens at hand that are not stored yet.
	RefreshBeforeCommit = "refresh.before_commit"
)

// Turns lists the failpoints of a conversation's turn, in order.
func Turns() []string {
	return []string{TurnAfterClaim, TurnAfterModel, TurnAfterReply, TurnAfterCalls}
}

// All lists every failpoint of a call, in the order it passes them.
func All() []string {
	return []string{
		SubmitBeforeCommit, SubmitAfterCommit, DecideBeforeCommit, DecideAfterCommit,
		ExpireBeforeCommit, ExpireAfterCommit, ExecuteBeforeClaim, ClaimBeforeCommit,
		ClaimAfterCommit, FinishBeforeCommit, FinishAfterCommit, DeliverBefore,
	}
}
