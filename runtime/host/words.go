package host

import (
	"fmt"
	"time"
)

// ComeBack tells the model how to come back to a call that still waits. A zero deadline is not known.
func ComeBack(callID string, deadline time.Time) string {
	until := ""
	if !deadline.IsZero() {
		until = ", until " + deadline.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("This call was not run: it still waits for a person's approval in Holdpoint (call %s%s). "+
		"To come back to it, make the same call again with exactly the same arguments: it then waits for the same approval. "+
		"Do not try to reach the same effect in another way.", callID, until)
}

// NotRun tells the model that the gate could not be asked about a call, and why.
func NotRun(why string) string {
	return "Holdpoint could not be asked about this call, so it was not run: " + why
}
