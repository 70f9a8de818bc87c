package stdio

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/internal/sandbox"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// child is a running server process and all processes that it starts.
type child struct {
	process *sandbox.Process
	stdin   *os.File
	stdout  *os.File
	log     *slog.Logger
	hide    *strings.Replacer // removes secrets from stderr

	read chan struct{} // closed when stderr was read to its end

	mu    sync.Mutex
	words []string // last lines of stderr
}

const (
	maxStderrLine  = 4 << 10
	maxLastWords   = 1 << 10
	lingeringPipes = 10 * time.Second // to wait for the end of a child that closed its output
)

// startChild starts a skill's program. ctx bounds only the start.
func startChild(ctx context.Context, config Config, server tool.Server, logger *slog.Logger) (*child, error) {
	home, err := prepareHome(config, server)
	if err != nil {
		return nil, err
	}
	env := map[string]string{"PATH": config.Path, "LANG": config.Lang, "HOME": home.dir, "TMPDIR": home.temp}
	var secrets []string
	for name, value := range server.Env {
		env[name] = value
		if len(value) >= 8 {
			secrets = append(secrets, value, "[hidden]")
		}
	}
	program, err := lookUpProgram(server.Command[0], env["PATH"])
	if err != nil {
		return nil, err
	}
	if !filepath.IsAbs(program) {
		program = filepath.Join(home.dir, program)
	}
	spec := sandbox.Spec{
		Program: program, Args: server.Command, Dir: home.dir, Account: home.account, Own: []string{home.dir, home.temp},
		Read: server.Paths.Read, Write: server.Paths.Write,
		Roots: config.Policy.Paths, Keep: config.Policy.Keep, Hide: append([]string{home.data}, config.Policy.Hide...),
		Open: config.Policy.Unsandboxed && sandbox.Unsupported() != "", Limits: config.Policy.Limits,
	}
	for name, value := range env {
		spec.Env = append(spec.Env, name+"="+value)
	}
	p, err := sandbox.Start(ctx, spec)
	if err != nil {
		return nil, err
	}
	c := &child{
		process: p, stdin: p.Stdin, stdout: p.Stdout, log: logger.With("skill", server.Skill),
		hide: strings.NewReplacer(secrets...), read: make(chan struct{}),
	}
	for _, note := range p.Notes {
		c.log.Warn("skill's program is refused a path", "reason", note)
	}
	go c.readStderr()
	return c, nil
}

// home has the private directories of a skill's program, and the account that owns them.
type home struct {
	dir, temp string
	data      string           // the data directory, which has them
	account   *sandbox.Account // nil: the server's own
}

// prepareHome makes the directories that only this skill's program uses.
func prepareHome(config Config, server tool.Server) (home, error) {
	if config.DataDir == "" {
		return home{}, errors.New("make private home: no data directory is configured")
	}
	dataDir, err := filepath.Abs(config.DataDir)
	if err != nil {
		return home{}, fmt.Errorf("make private home: %w", err)
	}
	h := home{data: dataDir, dir: filepath.Join(dataDir, "homes", server.SkillID.String()), temp: filepath.Join(dataDir, "homes", server.SkillID.String()+".tmp")}
	sandboxed := sandbox.Unsupported() == "" || !config.Policy.Unsandboxed
	switch {
	case os.Geteuid() == 0 && sandboxed && server.RunAs != "":
		h.account, err = sandbox.NamedAccount(server.RunAs, append([]string{filepath.Join(dataDir, "postgres", "data")}, config.Policy.Keep...))
	case os.Geteuid() == 0 && sandboxed:
		h.account, err = sandbox.OwnAccount(filepath.Join(dataDir, "homes", "accounts"), server.SkillID.String())
	case server.RunAs != "":
		err = checkOwnAccount(server.RunAs)
	}
	if err != nil {
		return home{}, err
	}
	for _, dir := range []string{h.dir, h.temp} {
		if err := sandbox.PrivateDir(dir, h.account); err != nil {
			return home{}, err
		}
	}
	return h, nil
}

// checkOwnAccount returns an error for every account but the server's own. It is used where the server cannot change the account.
func checkOwnAccount(name string) error {
	found, err := user.Lookup(name)
	if err != nil {
		return fmt.Errorf("find account %s: %w", name, err)
	}
	if found.Uid != strconv.Itoa(os.Geteuid()) {
		return fmt.Errorf("run as %s: only a server that runs as root, with a sandbox, can do that", name)
	}
	return nil
}

// lookUpProgram finds a program as a shell with this PATH does.
func lookUpProgram(program, path string) (string, error) {
	if strings.ContainsRune(program, filepath.Separator) {
		return program, nil
	}
	for _, dir := range filepath.SplitList(path) {
		candidate := filepath.Join(dir, program)
		if info, err := os.Stat(candidate); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
			return candidate, nil
		}
	}
	return "", fmt.Errorf("look up %s: no such program on the PATH of skills (%s)", plain.Line(program, 100), plain.Line(path, 300))
}

// readStderr logs stderr.
func (c *child) readStderr() {
	defer close(c.read)
	reader := bufio.NewReaderSize(c.process.Stderr, maxStderrLine)
	for {
		line, err := reader.ReadSlice('\n')
		if len(line) > 0 {
			c.recordLine(strings.TrimRight(string(line), "\r\n"), errors.Is(err, bufio.ErrBufferFull))
		}
		for errors.Is(err, bufio.ErrBufferFull) { // the rest of a long line
			_, err = reader.ReadSlice('\n')
		}
		if err != nil {
			return
		}
	}
}

// recordLine logs a line, and keeps it among the last ones.
func (c *child) recordLine(line string, cut bool) {
	line = plain.Line(c.hide.Replace(line), maxStderrLine)
	if cut {
		line += "…"
	}
	c.log.Info("skill server says", "stderr", line)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.words = append(c.words, line); len(c.words) > 8 {
		c.words = c.words[1:]
	}
}

// lastWords returns the last lines of stderr for an error.
func (c *child) lastWords() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	said := strings.TrimSpace(strings.Join(c.words, " | "))
	if said == "" {
		return ""
	}
	if len(said) > maxLastWords {
		said = "…" + strings.ToValidUTF8(said[len(said)-maxLastWords:], "")
	}
	return "; it said: " + said
}

// describeEnding returns how the child ended. It waits a moment for the end.
func (c *child) describeEnding() string {
	timer := time.NewTimer(lingeringPipes)
	defer timer.Stop()
	for _, done := range []<-chan struct{}{c.process.Done(), c.read} {
		select {
		case <-done:
		case <-timer.C:
			return "the server's process closed its output" + c.lastWords()
		}
	}
	return "the server's process ended (" + plain.Line(c.process.Ending(), 200) + ")" + c.lastWords()
}

// stopProcess stops the child: it closes its input, then sends SIGTERM to all its processes, then SIGKILL. If ctx has ended, it kills at
// once.
func (c *child) stopProcess(ctx context.Context, patience time.Duration) {
	_ = c.stdin.Close()
	ended := c.waitForEnd(ctx, patience)
	if !ended && ctx.Err() == nil {
		c.process.Terminate()
		ended = c.waitForEnd(ctx, patience)
	}
	if !ended {
		c.process.Kill()
	}
	<-c.process.Done() // and all processes that could write
	<-c.read
	_ = c.stdout.Close() // a pipe that was only read
	_ = c.process.Stderr.Close()
}

// waitForEnd reports whether the child ends in time.
func (c *child) waitForEnd(ctx context.Context, patience time.Duration) bool {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-c.process.Done():
		return true
	case <-ctx.Done():
	case <-timer.C:
	}
	return false
}
