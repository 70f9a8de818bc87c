// Package failpoint owns the named places where a test may kill the process,
// to see what a crash there leaves behind. Builds without the failpoint tag
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

	// RefreshBeforeCommit is passed with new tokens at hand that are not stored yet.
	RefreshBeforeCommit = "refresh.before_commit"
)

// All lists every failpoint, in the order a call passes them.
func All() []string {
	return []string{
		SubmitBeforeCommit, SubmitAfterCommit, DecideBeforeCommit, DecideAfterCommit,
		ExpireBeforeCommit, ExpireAfterCommit, ExecuteBeforeClaim, ClaimBeforeCommit,
		ClaimAfterCommit, FinishBeforeCommit, FinishAfterCommit, DeliverBefore,
	}
}
