package call

import (
	"strings"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// hidesArguments returns a function that reports whether a pointer into the arguments is of a secret.
func hidesArguments(_ tool.Definition, _ []byte) func(pointer string) bool {
	return func(pointer string) bool { return strings.Contains(pointer, "password") }
}
