package cli

import "github.com/holdpoint/holdpoint/internal/client"

// The exit codes. Those from 10 on tell how a call ended; scripts rely on them.
const (
	ExitOK               = 0
	ExitFailure          = 1 // bad use, and whatever else keeps a command from its work
	ExitToolError        = 10
	ExitJSONRPCError     = 11
	ExitTransport        = 12
	ExitProtocol         = 13
	ExitSessionInvalid   = 14
	ExitRejected         = 20
	ExitExpired          = 21
	ExitCancelled        = 22
	ExitDenied           = 23
	ExitUnknown          = 24
	ExitInvalidArguments = 25
	ExitInterrupted      = 130 // by Ctrl-C, as shells have it
)

// ExitError ends the program with a code. Err may be nil: all was said.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return "exit"
	}
	return e.Err.Error()
}

func (e *ExitError) Unwrap() error { return e.Err }

// exitCode says how a call ended.
func exitCode(o client.Outcome) int {
	switch o.Status {
	case "succeeded":
		return ExitOK
	case "rejected":
		return ExitRejected
	case "expired":
		return ExitExpired
	case "cancelled":
		return ExitCancelled
	case "denied":
		return ExitDenied
	case "unknown":
		return ExitUnknown
	case "invalid":
		return ExitInvalidArguments
	case "failed":
		return failureCode(o.Failure)
	}
	return ExitFailure
}

func failureCode(failure string) int {
	switch failure {
	case "tool_error":
		return ExitToolError
	case "jsonrpc_error":
		return ExitJSONRPCError
	case "transport":
		return ExitTransport
	case "protocol":
		return ExitProtocol
	case "session_invalid":
		return ExitSessionInvalid
	}
	return ExitFailure
}
