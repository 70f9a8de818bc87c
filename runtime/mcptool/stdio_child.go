package mcptool

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

const (
	maxStderrLine  = 4 << 10
	maxLastWords   = 1 << 10
	lingeringPipes = time.Second // for what an escaped grandchild still writes
)

// child is a running server process, the leader of its own process group.
type child struct {
	cmd    *exec.Cmd
	stdin  *os.File
	stdout *os.File
	stderr *os.File
	log    *slog.Logger
	hide   *strings.Replacer // secrets out of what the child writes to stderr

	exited chan struct{} // closed after the process was reaped
	status error         // how it ended; read after exited
	read   chan struct{} // closed after stderr was read to its end

	mu    sync.Mutex
	words []string // last lines of stderr
}

// startChild starts a skill's program.
func startChild(config Config, server tool.Server) (*child, error) {
	home, err := privateHome(config.DataDir, server)
	if err != nil {
		return nil, err
	}
	env := map[string]string{"PATH": config.Path, "LANG": config.Lang, "HOME": home}
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
	c := &child{
		cmd:  &exec.Cmd{Path: program, Args: server.Command, Dir: home, SysProcAttr: processAttributes()},
		log:  config.Logger.With("skill", server.Skill),
		hide: strings.NewReplacer(secrets...), exited: make(chan struct{}), read: make(chan struct{}),
	}
	for name, value := range env {
		c.cmd.Env = append(c.cmd.Env, name+"="+value)
	}
	return c, c.start()
}

// privateHome makes the HOME that only this skill's children use.
func privateHome(dataDir string, server tool.Server) (string, error) {
	if dataDir == "" {
		return "", errors.New("make private home: no data directory is configured")
	}
	home, err := filepath.Abs(filepath.Join(dataDir, "homes", server.SkillID.String()))
	if err != nil {
		return "", fmt.Errorf("make private home: %w", err)
	}
	if err := os.MkdirAll(home, 0o700); err != nil {
		return "", fmt.Errorf("make private home: %w", err)
	}
	if err := os.Chmod(home, 0o700); err != nil { //nolint:gosec // G302: a directory that only its owner enters
		return "", fmt.Errorf("make private home: %w", err)
	}
	return home, nil
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

// start starts the process on a thread that waits for it until it ended: the
// death signal is bound to the life of the thread, not of this process.
func (c *child) start() error {
	var pipes [6]*os.File
	for i := 0; i < len(pipes); i += 2 {
		var err error
		if pipes[i], pipes[i+1], err = os.Pipe(); err != nil { //nolint:gosec // G602: i goes in twos
			closeFiles(pipes[:])
			return fmt.Errorf("start %s: %w", c.cmd.Path, err)
		}
	}
	c.cmd.Stdin, c.stdin = pipes[0], pipes[1]
	c.stdout, c.cmd.Stdout = pipes[2], pipes[3]
	c.stderr, c.cmd.Stderr = pipes[4], pipes[5]
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.cmd.Start()
		closeFiles([]*os.File{pipes[0], pipes[3], pipes[5]})
		started <- err
		if err == nil {
			c.wait()
		}
	}()
	if err := <-started; err != nil {
		closeFiles([]*os.File{pipes[1], pipes[2], pipes[4]})
		return fmt.Errorf("start %s: %w", c.cmd.Path, err)
	}
	go c.readStderr()
	return nil
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}

// wait reaps the process and ends what it left behind in its group.
func (c *child) wait() {
	err := c.cmd.Wait()
	killGroup(c.cmd.Process.Pid)
	c.status = err
	close(c.exited)
	time.AfterFunc(lingeringPipes, func() { closeFiles([]*os.File{c.stdin, c.stdout, c.stderr}) })
}

// readStderr logs what the child says.
func (c *child) readStderr() {
	defer close(c.read)
	reader := bufio.NewReaderSize(c.stderr, maxStderrLine)
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
	for _, done := range []chan struct{}{c.exited, c.read} {
		select {
		case <-done:
		case <-timer.C:
			return "the server's process closed its output" + c.lastWords()
		}
	}
	how := "exit status 0"
	if c.status != nil {
		how = plain(c.status.Error(), 100)
	}
	return "the server's process ended (" + how + ")" + c.lastWords()
}

// stop ends the child: by closing its input, then by SIGTERM to its group, then
// by SIGKILL; at once when ctx ended.
func (c *child) stop(ctx context.Context, patience time.Duration) {
	_ = c.stdin.Close()
	ended := c.ends(ctx, patience)
	if !ended && ctx.Err() == nil {
		terminateGroup(c.cmd.Process.Pid)
		ended = c.ends(ctx, patience)
	}
	if !ended {
		killGroup(c.cmd.Process.Pid)
		ended = c.ends(context.WithoutCancel(ctx), patience)
	}
	if ended { // let its last words be read; their end comes soon, see wait
		<-c.read
	}
	closeFiles([]*os.File{c.stdout, c.stderr})
	<-c.read
}

// ends reports whether the child ended in time.
func (c *child) ends(ctx context.Context, patience time.Duration) bool {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-c.exited:
		return true
	case <-ctx.Done():
	case <-timer.C:
	}
	return false
}
