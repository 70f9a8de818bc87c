// Command screencast records a call that waits for its approval: it starts the demo of the given program, runs real commands against it, and
// writes what they print as an asciicast and as an animated SVG. The pauses are its own, so that two recordings differ only in ids and times.
//
//	go run ./internal/screencast PROGRAM CAST SVG
package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "screencast:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 3 {
		return errors.New("usage: screencast PROGRAM CAST SVG")
	}
	program, err := filepath.Abs(args[0])
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	d, err := startDemo(ctx, program)
	if err != nil {
		return err
	}
	r := &recording{}
	err = errors.Join(d.recordCall(r), d.stopServer())
	if err != nil {
		return err
	}
	cast, err := r.encodeCast()
	if err != nil {
		return err
	}
	if err := os.WriteFile(args[1], cast, 0o644); err != nil { //nolint:gosec // G306: part of the documentation
		return err
	}
	return os.WriteFile(args[2], r.drawSVG(), 0o644) //nolint:gosec // G306: part of the documentation
}

// demo is a running demo with a folder of its own.
type demo struct {
	ctx     context.Context
	program string
	dir     string
	url     string
	token   string
	server  *exec.Cmd
}

// startDemo starts the demo, waits until its agent's first call is parked, and registers what the recording shows.
func startDemo(ctx context.Context, program string) (*demo, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := listener.Addr().String()
	dir, err := os.MkdirTemp("", "screencast-")
	if err = errors.Join(err, listener.Close()); err == nil {
		err = os.Chmod(dir, 0o755) //nolint:gosec // G302: as root, the database runs as another user
	}
	if err != nil {
		return nil, err
	}
	d := &demo{ctx: ctx, program: program, dir: dir, url: "http://" + addr, token: rand.Text() + rand.Text()}
	tokenFile := filepath.Join(dir, "token")
	if err := os.WriteFile(tokenFile, []byte(d.token), 0o600); err != nil {
		return nil, err
	}
	d.server = d.makeCommand(d.token, "demo", "--addr", addr, "--data-dir", filepath.Join(dir, "data"), "--bootstrap-token-file", tokenFile, "--drain-delay", "0s")
	d.server.Cancel = func() error { return d.server.Process.Signal(syscall.SIGTERM) }
	d.server.Stderr = os.Stderr
	stdout, err := d.server.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := d.server.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(stdout)
	for lines.Scan() && !strings.Contains(lines.Text(), "needs your approval") {
	}
	go func() { _, _ = io.Copy(io.Discard, stdout) }() // the rest is not shown
	for _, args := range [][]string{
		{"skill", "create", "files", "--transport", "http", "--url", d.url + "/demo/skills/drive/mcp", "--oauth-grant", "client_credentials", "--oauth-client-id", "holdpoint", "--oauth-issuer", d.url + "/demo/auth"},
		{"skill", "tools", "files", "--refresh"},
		{"agent", "create", "billing"},
		{"agent", "assign", "billing", "files"},
	} {
		if said, err := d.makeCommand(d.token, args...).CombinedOutput(); err != nil {
			return nil, errors.Join(fmt.Errorf("holdpoint %s: %w\n%s", strings.Join(args, " "), err, said), d.stopServer())
		}
	}
	return d, nil
}

func (d *demo) stopServer() error {
	err := d.server.Cancel()
	_ = d.server.Wait() // by the signal
	return errors.Join(err, os.RemoveAll(d.dir))
}

func (d *demo) makeCommand(token string, args ...string) *exec.Cmd {
	settings := []string{"HOLDPOINT_URL=" + d.url, "HOLDPOINT_TOKEN=" + token, d.program}
	cmd := exec.CommandContext(d.ctx, "env", append(settings, args...)...) //nolint:gosec // G204: the program to show
	cmd.Dir = d.dir
	return cmd
}

// recordCall makes a call, looks at it, approves it, and shows its result.
func (d *demo) recordCall(r *recording) error {
	key, err := d.makeCommand(d.token, "agent", "key", "create", "billing").Output()
	if err != nil {
		return err
	}
	const arguments = `{"filename":"january","rows":[{"date":"2026-01-31","amount":120.5,"vendor":"Northwind Traders"}]}`
	call := d.makeCommand(strings.TrimSpace(string(key)), "call", "billing", "files__save_csv", "--args", arguments)
	reader, writer := io.Pipe()
	call.Stdout, call.Stderr = writer, writer
	if err := call.Start(); err != nil {
		return err
	}
	lines := bufio.NewScanner(reader)
	done := make(chan error, 1)
	go func() {
		done <- call.Wait()
		_ = writer.Close() // never fails
	}()
	r.typeLine("# An agent calls a tool. Nothing allows this call, so it waits.")
	r.typeLine("holdpoint call billing files__save_csv --args '" + arguments[:35] + "…' &")
	if !lines.Scan() {
		return fmt.Errorf("the call printed nothing: %w", <-done)
	}
	r.printText(lines.Text())
	var pending struct {
		Items []struct {
			ID     string `json:"id"`
			Digest string `json:"digest"`
		} `json:"items"`
	}
	listed, err := d.makeCommand(d.token, "approvals", "list", "--json").Output()
	if err == nil {
		err = json.Unmarshal(listed, &pending)
	}
	if err != nil || len(pending.Items) == 0 {
		return fmt.Errorf("no call is pending: %w", err)
	}
	shown := pending.Items[0]
	r.typeLine("# A reviewer reads it, in the dashboard or here.")
	for _, args := range [][]string{{"approvals", "show", shown.ID}, {"approvals", "approve", shown.ID, "--digest", shown.Digest}} {
		said, err := d.makeCommand(d.token, args...).Output()
		if err != nil {
			return fmt.Errorf("holdpoint %s: %w", strings.Join(args, " "), err)
		}
		if args[1] == "approve" {
			r.typeLine("# The approval counts for exactly these bytes.")
		}
		r.typeLine("holdpoint " + strings.Join(args, " "))
		r.printText(strings.TrimSpace(string(said)))
	}
	for lines.Scan() {
		r.printText(strings.ReplaceAll(lines.Text(), d.dir+"/", ""))
	}
	r.typeLine("# It was sent once.")
	return <-done
}
