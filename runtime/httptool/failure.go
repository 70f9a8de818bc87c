package httptool

import (
	"fmt"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// failed returns a failure without an effect. The caller makes text from servers and documents plain first.
func failed(kind tool.FailureKind, cause error, format string, args ...any) *tool.Failure {
	return &tool.Failure{Kind: kind, Effect: tool.EffectNone, Message: fmt.Sprintf(format, args...), Err: cause}
}
