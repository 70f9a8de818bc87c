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

// enter enters the sandbox and becomes the program. It returns only if that fails.
func enter() int {
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
		entered, err = confine(&spec)
	}
	if err == nil {
		// The pipe holds what fits in it until the keeper reads: the answer comes before the program, and is void if an error follows.
		err = json.NewEncoder(answer).Encode(entered)
	}
	if err == nil {
		err = syscall.Exec(spec.Program, spec.Args, spec.Env) //nolint:gosec // G204: it is what the sandbox is for
		err = fmt.Errorf("run %s: %w%s", spec.Program, err, because(&spec, entered.Notes))
	}
	_ = json.NewEncoder(answer).Encode(report{Error: err.Error()})
	return 126
}

// because names the notes, which explain why a program does not start.
func because(spec *Spec, notes []string) string {
	text := strings.Join(append([]string{""}, notes...), "; ")
	if spec.Account != nil {
		text += "; it was run as " + spec.Account.Name
	}
	return text
}
