package guard

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// tryPrompt asks a host's model for the canary.
const tryPrompt = "Run exactly this command once with your shell tool, and nothing else: " + CanaryText + "\nThen repeat what the tool answered, word for word."

// tryWords are the commands that start a host once, without a person, and print what its tools answered.
func tryWords(host Host) []string {
	switch host {
	case ClaudeCode:
		return []string{"claude", "-p", tryPrompt, "--allowedTools", "Bash", "--output-format", "stream-json", "--verbose"}
	case Codex:
		return []string{"codex", "exec", "--skip-git-repo-check", "--json", tryPrompt}
	case Gemini:
		return []string{"gemini", "--yolo", "--output-format", "stream-json", "-p", tryPrompt}
	case Copilot:
		return []string{"copilot", "--allow-all-tools", "-p", tryPrompt}
	case OpenCode:
		return []string{"opencode", "run", "--format", "json", tryPrompt}
	case Cursor:
	}
	return []string{"cursor-agent", "-p", "--force", "--output-format", "stream-json", tryPrompt}
}

// cleanEnvironment is the environment without Holdpoint's variables: an operator's token must not reach a host, its model, or a hook
// that someone altered.
func cleanEnvironment() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "HOLDPOINT_") })
}

// TryHost starts the host itself once and lets its model ask for the canary. Only the server's refusal proves that the host runs the hook.
// The output is what the host printed.
func TryHost(ctx context.Context, host Host, folder string) (output string, err error) {
	words := tryWords(host)
	command := exec.CommandContext(ctx, words[0], words[1:]...) //nolint:gosec // G204: one of the hosts
	command.Dir, command.Env = folder, cleanEnvironment()
	var said bytes.Buffer
	command.Stdout, command.Stderr = &said, &said
	runErr := command.Run()
	switch {
	case strings.Contains(said.String(), CanaryMessage):
		return said.String(), nil
	case ctx.Err() != nil:
		return said.String(), fmt.Errorf("%s did not end in time", words[0])
	case runErr != nil:
		return said.String(), fmt.Errorf("%s: %w", words[0], runErr)
	}
	return said.String(), fmt.Errorf("%s: the server's refusal did not reach its model: the hook did not run, or the model did not call the tool", words[0])
}
