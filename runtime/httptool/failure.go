package httptool

import (
	"fmt"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// failed is a failure without an effect. Text of servers and documents in it has to be made plain before.
func failed(kind tool.FailureKind, cause error, format string, args ...any) *tool.Failure {
	return &tool.Failure{Kind: kind, Effect: tool.EffectNone, Message: fmt.Sprintf(format, args...), Err: cause}
}
