package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// process is a child process.
type process struct {
	cmd    *exec.Cmd
	log    string // a file
	exited chan struct{}
}

// startProcess starts a program whose errors go to a log file. When the context of the command ends, the program gets SIGTERM.
func startProcess(cmd *exec.Cmd, log string) (*process, error) {
	file, err := os.Create(log)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	defer func() { _ = file.Close() }()
	cmd.Stderr = file
	if cmd.Stdout == nil {
		cmd.Stdout = file
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	p := &process{cmd: cmd, log: log, exited: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // its errors are in the log
		close(p.exited)
	}()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

const stopPatience = 30 * time.Second

// stop ends the program, by force if it does not end in time.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-p.exited:
	case <-time.After(stopPatience):
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
}

// logTail returns the end of the program's log.
func (p *process) logTail() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-2000):])
}

// waitFor waits until ready returns true.
func (p *process) waitFor(ctx context.Context, patience time.Duration, ready func(ctx context.Context) bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("it took too long"))
	defer cancel()
	for !ready(ctx) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w; it said:\n%s", p.cmd.Path, context.Cause(ctx), p.logTail())
		case <-p.exited:
			return fmt.Errorf("wait for %s: it ended; it said:\n%s", p.cmd.Path, p.logTail())
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

// freeAddr returns an unused address.
func freeAddr(ctx context.Context) (string, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return listener.Addr().String(), listener.Close()
}

// startListener starts a program that prints the address at which it listens, and ends with this program.
func startListener(cmd *exec.Cmd, log string) (*process, string, error) {
	if _, err := cmd.StdinPipe(); err != nil { // its end tells the program to end
		return nil, "", err
	}
	stdout, write, err := os.Pipe()
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = stdout.Close() }()
	cmd.Stdout = write
	p, err := startProcess(cmd, log)
	_ = write.Close() // the child has its own
	if err != nil {
		return nil, "", err
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		p.stop()
		return nil, "", fmt.Errorf("%w; it said:\n%s", err, p.logTail())
	}
	return p, strings.TrimSpace(line), nil
}
