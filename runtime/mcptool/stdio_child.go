package mcptool

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

	"github.com/holdpoint/holdpoint/internal/sandbox"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

const (
	maxStderrLine  = 4 << 10
	maxLastWords   = 1 << 10
	lingeringPipes = 10 * time.Second // for the end of a child that closed its output
)

// child is a running server process, with all that it starts.
type child struct {
	process *sandbox.Process
	stdin   *os.File
	stdout  *os.File
	log     *slog.Logger
	hide    *strings.Replacer // secrets out of what the child writes to stderr

	read chan struct{} // closed after stderr was read to its end

	mu    sync.Mutex
	words []string // last lines of stderr
}

// startChild starts a skill's program. ctx bounds the start only.
func startChild(ctx context.Context, config Config, server tool.Server) (*child, error) {
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
	program, err := lookUp(server.Command[0], env["PATH"])
	if err != nil {
		return nil, err
	}
	if !filepath.IsAbs(program) {
		program = filepath.Join(home.dir, program)
	}
	spec := sandbox.Spec{
		Program: program, Args: server.Command, Dir: home.dir, Account: home.account, Own: []string{home.dir, home.temp},
		Read: server.Paths.Read, Write: server.Paths.Write,
		Roots: config.Stdio.Paths, Keep: config.Stdio.Keep, Hide: append([]string{home.data}, config.Stdio.Hide...),
		Open: config.Stdio.Unsandboxed && sandbox.Unsupported() != "", Limits: config.Stdio.Limits,
	}
	for name, value := range env {
		spec.Env = append(spec.Env, name+"="+value)
	}
	p, err := sandbox.Start(ctx, spec)
	if err != nil {
		return nil, err
	}
	c := &child{
		process: p, stdin: p.Stdin, stdout: p.Stdout, log: config.Logger.With("skill", server.Skill),
		hide: strings.NewReplacer(secrets...), read: make(chan struct{}),
	}
	for _, note := range p.Notes {
		c.log.Warn("skill's program is refused a path", "reason", note)
	}
	go c.readStderr()
	return c, nil
}

// home are the private folders of a skill's program, and the account that owns them.
type home struct {
	dir, temp string
	data      string           // the data directory, in which they are
	account   *sandbox.Account // nil: the server's
}

// prepareHome makes the folders that only this skill's program uses.
func prepareHome(config Config, server tool.Server) (home, error) {
	if config.DataDir == "" {
		return home{}, errors.New("make private home: no data directory is configured")
	}
	dataDir, err := filepath.Abs(config.DataDir)
	if err != nil {
		return home{}, fmt.Errorf("make private home: %w", err)
	}
	h := home{data: dataDir, dir: filepath.Join(dataDir, "homes", server.SkillID.String()), temp: filepath.Join(dataDir, "homes", server.SkillID.String()+".tmp")}
	sandboxed := sandbox.Unsupported() == "" || !config.Stdio.Unsandboxed
	switch {
	case os.Geteuid() == 0 && sandboxed && server.RunAs != "":
		h.account, err = sandbox.NamedAccount(server.RunAs, append([]string{filepath.Join(dataDir, "postgres", "data")}, config.Stdio.Keep...))
	case os.Geteuid() == 0 && sandboxed:
		h.account, err = sandbox.OwnAccount(filepath.Join(dataDir, "homes", "accounts"), server.SkillID.String())
	case server.RunAs != "":
		err = checkOwnName(server.RunAs)
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

// checkOwnName refuses every account but the server's own, where the server cannot become another.
func checkOwnName(name string) error {
	found, err := user.Lookup(name)
	if err != nil {
		return fmt.Errorf("find account %s: %w", name, err)
	}
	if found.Uid != strconv.Itoa(os.Geteuid()) {
		return fmt.Errorf("run as %s: only a server that runs as root, with a sandbox, can do that", name)
	}
	return nil
}

// lookUp finds a program as a shell with that PATH would.
func lookUp(program, path string) (string, error) {
	if strings.ContainsRune(program, filepath.Separator) {
		return program, nil
	}
	for _, dir := range filepath.SplitList(path) {
		candidate := filepath.Join(dir, program)
		if info, err := os.Stat(candidate); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
			return candidate, nil
		}
	}
	return "", fmt.Errorf("look up %s: no such program on the PATH of skills (%s)", plain(program, 100), plain(path, 300))
}

// readStderr logs what the child says.
func (c *child) readStderr() {
	defer close(c.read)
	reader := bufio.NewReaderSize(c.process.Stderr, maxStderrLine)
	for {
		line, err := reader.ReadSlice('\n')
		if len(line) > 0 {
			c.said(strings.TrimRight(string(line), "\r\n"), errors.Is(err, bufio.ErrBufferFull))
		}
		for errors.Is(err, bufio.ErrBufferFull) { // the rest of a line that is too long
			_, err = reader.ReadSlice('\n')
		}
		if err != nil {
			return
		}
	}
}

// said logs one line and remembers it among the last.
func (c *child) said(line string, cut bool) {
	line = plain(c.hide.Replace(line), maxStderrLine)
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

// lastWords are the end of what the child wrote to stderr, as text.
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

// ending says how the child ended. A moment is given to it to do so.
func (c *child) ending() string {
	timer := time.NewTimer(lingeringPipes)
	defer timer.Stop()
	for _, done := range []<-chan struct{}{c.process.Done(), c.read} {
		select {
		case <-done:
		case <-timer.C:
			return "the server's process closed its output" + c.lastWords()
		}
	}
	return "the server's process ended (" + plain(c.process.Ending(), 200) + ")" + c.lastWords()
}

// stop ends the child: by closing its input, then by SIGTERM to all its processes, then
// by SIGKILL; at once when ctx ended.
func (c *child) stop(ctx context.Context, patience time.Duration) {
	_ = c.stdin.Close()
	ended := c.ends(ctx, patience)
	if !ended && ctx.Err() == nil {
		c.process.Terminate()
		ended = c.ends(ctx, patience)
	}
	if !ended {
		c.process.Kill()
	}
	<-c.process.Done() // with every process that could write
	<-c.read
	_ = c.stdout.Close() // a pipe, which was only read
	_ = c.process.Stderr.Close()
}

// ends reports whether the child ended in time.
func (c *child) ends(ctx context.Context, patience time.Duration) bool {
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
