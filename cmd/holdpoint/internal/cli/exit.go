package cli

import (
	"cmp"

	"github.com/holdpoint/holdpoint/internal/client"
)

// The exit codes. Those from 10 on are outcomes of calls; scripts rely on them.
const (
	ExitOK               = 0
	ExitFailure          = 1 // wrong use, or any other error
	ExitDiffers          = 2 // of diff: the server differs from the files
	ExitRefused          = 2 // holdpoint hook: the tool must not run
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
	ExitWaits            = 30  // a change waits for a second operator
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

var (
	statusCodes = map[string]int{
		"succeeded": ExitOK, "rejected": ExitRejected, "expired": ExitExpired, "cancelled": ExitCancelled, "denied": ExitDenied,
		"unknown": ExitUnknown, "invalid": ExitInvalidArguments,
	}
	failureCodes = map[string]int{ // of failed calls
		"tool_error": ExitToolError, "jsonrpc_error": ExitJSONRPCError, "transport": ExitTransport, "protocol": ExitProtocol,
		"session_invalid": ExitSessionInvalid,
	}
)

// exitCode is the exit code for the outcome of a call.
func exitCode(o client.Outcome) int {
	if code, ok := statusCodes[o.Status]; ok {
		return code
	}
	return cmp.Or(failureCodes[o.Failure], ExitFailure)
}
