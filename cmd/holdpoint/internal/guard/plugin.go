package guard

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// pluginMark is in the first line of Holdpoint's plugin for OpenCode.
const pluginMark = "// Holdpoint's plugin for OpenCode"

// readPlugin lets the program write OpenCode's plugin, so that the plugin always fits the hook that it runs.
func (g *Guard) readPlugin(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	words := append(g.Arguments(), "--plugin")
	command := exec.CommandContext(ctx, words[0], words[1:]...) //nolint:gosec // G204: the program that the hook runs
	command.Env = cleanEnvironment()
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		return nil, fmt.Errorf("let %s write the plugin: %w: %s", g.Program, err, strings.TrimSpace(stderr.String()))
	}
	if !strings.HasPrefix(stdout.String(), pluginMark) {
		return nil, fmt.Errorf("let %s write the plugin: the answer must begin with %q", g.Program, pluginMark)
	}
	return stdout.Bytes(), nil
}
