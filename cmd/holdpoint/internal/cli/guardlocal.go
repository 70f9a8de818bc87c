package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/guard"
	"github.com/holdpoint/holdpoint/internal/outbound"
	"github.com/holdpoint/holdpoint/internal/pause"
)

// A developer without a server gets one with --local: it listens on this machine only, with its own database. Its first credential is in a file.
// With the scope machine, root alone can read the file and the database, so the coding agent cannot decide. With the scope user nothing can be
// kept from the agent, which the limits say first.

// localStart is how long a local server may take to start: it may have to make its database.
const localStart = 3 * time.Minute

// localRootURL is the address of root's local server. Only root can listen there, so no program of the coding agent can answer in its place.
const localRootURL = "http://127.0.0.1:978"

// localWarning says what a local server of the user does not hold.
const localWarning = "The server runs as the user of the coding agent: an agent that may run any shell command can read the server's credentials and database, and approve itself. As root, --local keeps both from it."

// useLocalServer starts the local server with --local, unless it runs, and uses its first credential for this command.
func (e *Env) useLocalServer(ctx context.Context, found *guarded, o *guardOptions) error {
	switch {
	case o.dataDir != "" && !o.local:
		return misusef("--data-dir: must be used with --local")
	case o.local && o.dryRun:
		return misusef("--local: must be used without --dry-run: it starts a server")
	case !o.local:
		return nil
	}
	if found.managed && e.url == defaultURL {
		e.url = localRootURL
	}
	address, err := url.Parse(e.url)
	if err != nil || address.Scheme != "http" || !outbound.IsLoopbackHost(address.Hostname()) {
		return misusef("--url %q: must be an http:// address of this machine with --local, such as http://127.0.0.1:8080", e.url)
	}
	if port, err := strconv.Atoi(cmp.Or(address.Port(), "80")); found.managed && (err != nil || port >= 1024) {
		return misusef("--url %q: must have a port below 1024 with --scope machine, which only root can open: else another program could answer in the server's place while it is down", e.url)
	}
	tokenFile, err := e.makeLocalToken(found)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(tokenFile)
	if err != nil {
		return err
	}
	e.token = strings.TrimSpace(string(text))
	if e.checkReady(ctx, reportTimeout) != nil {
		if err := e.startLocalServer(ctx, found, o, address.Host, tokenFile); err != nil {
			return err
		}
	}
	e.notef("Sign in at %s with the token in %s. It can decide calls: keep the file from the coding agent.", e.url, tokenFile)
	return nil
}

// makeLocalToken makes the file of the server's first credential unless it is there, and returns its path.
func (e *Env) makeLocalToken(found *guarded) (string, error) {
	path := filepath.Join(found.machine.Folder(found.managed), "local-server.token")
	if fileExists(path) {
		return path, nil
	}
	edit := &guard.Edit{Path: path, New: []byte(rand.Text() + rand.Text() + "\n"), Mode: 0o400, Owner: -1, Secret: true}
	if err := edit.Write(); err != nil {
		return "", err
	}
	e.notef("Wrote %s.", path)
	return path, nil
}

// startLocalServer starts the server as a process of its own, which outlives this command, and waits until it is ready.
func (e *Env) startLocalServer(ctx context.Context, found *guarded, o *guardOptions, address, tokenFile string) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	program = cmp.Or(o.program, program)
	words := []string{"serve", "--addr", address, "--public-url", e.url, "--bootstrap-token-file", tokenFile}
	if o.dataDir != "" {
		words = append(words, "--data-dir", o.dataDir)
	}
	logFile := filepath.Join(found.machine.Folder(found.managed), "local-server.log")
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	server := exec.Command(program, words...) //nolint:gosec,noctx // G204: this program; it outlives this command
	server.Stdout, server.Stderr, server.Dir = log, log, "/"
	server.Env = []string{"PATH=" + e.Getenv("PATH"), "HOME=" + e.Getenv("HOME"), "LANG=" + e.Getenv("LANG")}
	detachProcess(server)
	e.notef("Starting the local server: %s %s", program, strings.Join(words, " "))
	if err := server.Start(); err != nil {
		return fmt.Errorf("start the local server: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	ctx, cancel := context.WithTimeout(ctx, localStart)
	defer cancel()
	for e.checkReady(ctx, reportTimeout) != nil {
		select {
		case err := <-ended:
			return fmt.Errorf("the local server ended: %w: see %s: %s", cmp.Or(err, errors.New("without an error")), logFile, lastLine(logFile))
		default:
		}
		if pause.For(ctx, 100*time.Millisecond) != nil {
			return fmt.Errorf("the local server was not ready within %s: see %s", localStart, logFile)
		}
	}
	e.notef("The local server runs as process %d, until the machine stops. Run the command above as a service to start it again; its log is %s.", server.Process.Pid, logFile)
	return nil
}

// lastLine returns the last line of a file; "" if it cannot be read.
func lastLine(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	const most = 4 << 10
	if info, err := file.Stat(); err == nil && info.Size() > most {
		_, _ = file.Seek(-most, io.SeekEnd) // else the whole file is read
	}
	text, _ := io.ReadAll(file) // as much as there is
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}
