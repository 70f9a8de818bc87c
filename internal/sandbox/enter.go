package sandbox

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"syscall"
)

// enterSandbox enters the sandbox and becomes the program. It returns only if that fails.
func enterSandbox() int {
	runtime.LockOSThread() // this thread enters, and becomes the program
	answer := os.NewFile(4, "answer")
	for _, fd := range []int{3, 4, listenerSocket} {
		syscall.CloseOnExec(fd)
	}
	text, err := io.ReadAll(os.NewFile(3, "spec"))
	var spec Spec
	if err == nil {
		err = json.Unmarshal(text, &spec)
	}
	var entered report
	if err == nil {
		entered, err = confineProcess(&spec)
	}
	if err == nil {
		// The pipe keeps the answer until the keeper reads it. If running the program fails, an error follows the answer.
		err = json.NewEncoder(answer).Encode(entered)
	}
	if err == nil {
		err = syscall.Exec(spec.Program, spec.Args, spec.Env) //nolint:gosec // G204: the sandbox is for this
		reasons := strings.Join(append([]string{""}, entered.Notes...), "; ")
		if spec.Account != nil {
			reasons += "; it was run as " + spec.Account.Name
		}
		err = fmt.Errorf("run %s: %w%s", spec.Program, err, reasons)
	}
	_ = json.NewEncoder(answer).Encode(report{Error: err.Error()})
	return 126
}
