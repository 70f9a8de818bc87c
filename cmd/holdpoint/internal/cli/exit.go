package cli

import "github.com/holdpoint/holdpoint/internal/client"

// The exit codes. Those from 10 on are outcomes of calls; scripts rely on them.
const (
	ExitOK               = 0
	ExitFailure          = 1 // wrong use, or any other error
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
	ExitInterrupted      = 130 // by Ctrl-C, as in shells
)

// ExitError ends the program with a code. If Err is nil, nothing more is printed.
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

// exitCode is the exit code for the outcome of a call.
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
	}
	switch o.Failure { // of a failed call
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
