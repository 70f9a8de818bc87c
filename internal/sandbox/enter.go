package sandbox

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
)

// enter enters the sandbox and becomes the program. It returns only if that fails.
func enter() int {
	answer := os.NewFile(4, "answer")
	syscall.CloseOnExec(4)
	text, err := io.ReadAll(os.NewFile(3, "spec"))
	var spec Spec
	if err == nil {
		err = json.Unmarshal(text, &spec)
	}
	var notes []string
	if err == nil {
		notes, err = confine(&spec)
	}
	if err == nil {
		// The pipe holds what fits in it until the keeper reads: the answer comes before the program, and is void if an error follows.
		err = json.NewEncoder(answer).Encode(report{Notes: notes})
	}
	if err == nil {
		err = syscall.Exec(spec.Program, spec.Args, spec.Env) //nolint:gosec // G204: it is what the sandbox is for
		err = fmt.Errorf("run %s: %w%s", spec.Program, err, because(&spec, notes))
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
