package sandbox

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// Spec is a program, with the paths that it may use. Paths are absolute.
type Spec struct {
	Program string   // the file to run
	Args    []string // with the program's name first
	Env     []string // the whole environment
	Dir     string   // where it starts

	// Account is the account that it runs as. Nil: that of this process.
	Account *Account
	// Own are its own folders, without restrictions.
	Own []string
	// Read and Write are more paths that it may use. Each must lie in one of Roots, and neither contain nor be part of Keep.
	Read, Write []string
	Roots, Keep []string
	// Hide are folders that it may not read, although they may lie in a system folder.
	Hide []string

	Limits Limits
	// Open runs the program without a sandbox, with the rights of this process. Limits still apply.
	Open bool
}

// Account is a user of the machine.
type Account struct {
	Name     string // for messages
	UID, GID int
}

// Limits apply to a program and all processes that it starts. Zero fields have the defaults named.
type Limits struct {
	Processes int   // and threads. Default 512
	Memory    int64 // bytes, of all processes together. Default 2 GiB
	FileSize  int64 // bytes, of one file. Default 4 GiB
	Files     int   // open files, of one process. Default 4,096
}

// Process is a program that was started.
type Process struct {
	PID int
	// Notes say which paths the program cannot use, and why.
	Notes []string

	Stdin, Stdout, Stderr *os.File // the caller closes them

	control *os.File
	once    sync.Once
	done    chan struct{}
	ending  string // how it ended; read after done
}

// report is a line from the keeper.
type report struct {
	PID   int      `json:"pid,omitempty"`
	Notes []string `json:"notes,omitempty"`
	Error string   `json:"error,omitempty"`
	Ended string   `json:"ended,omitempty"`

	// Listens says that the keeper changes the modes of files for the program, in these folders and files.
	Listens bool     `json:"listens,omitempty"`
	Folders []string `json:"folders,omitempty"`
}

var errKeeperEnded = errors.New("its keeper ended")

// Start starts a program. ctx limits the start only.
func Start(ctx context.Context, spec Spec) (*Process, error) {
	l := &spec.Limits
	l.Processes, l.Memory = cmp.Or(l.Processes, 512), cmp.Or(l.Memory, 2<<30)
	l.FileSize, l.Files = cmp.Or(l.FileSize, 4<<30), cmp.Or(l.Files, 4096)
	if !spec.Open {
		if why := Unsupported(); why != "" {
			return nil, errors.New(why)
		}
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("describe %s: %w", spec.Program, err)
	}
	p := &Process{done: make(chan struct{})}
	pipes, err := openPipes(5)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Program, err)
	}
	stdin, stdout, stderr, control, status := pipes[0], pipes[1], pipes[2], pipes[3], pipes[4]
	p.Stdin, p.Stdout, p.Stderr, p.control = stdin.w, stdout.r, stderr.r, control.w
	cmd := &exec.Cmd{
		Path: selfPath(), Args: []string{keeperName}, Dir: "/", Env: append(raceEnvironment(), "GOMAXPROCS=2", "GOGC=50"),
		Stdin: stdin.r, Stdout: stdout.w, Stderr: stderr.w, ExtraFiles: []*os.File{control.r, status.w},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	err = cmd.Start()
	closeAll(stdin.r, stdout.w, stderr.w, control.r, status.w)
	if err != nil {
		closeAll(stdin.w, stdout.r, stderr.r, control.w, status.r)
		return nil, fmt.Errorf("start %s: %w", spec.Program, err)
	}
	first := make(chan report, 1)
	go p.followKeeper(cmd, status.r, first)
	if _, err = control.w.Write(append(text, '\n')); err != nil {
		err = errKeeperEnded
	}
	select {
	case r := <-first:
		if r.PID != 0 {
			p.PID, p.Notes = r.PID, r.Notes
			return p, nil
		}
		if r.Error != "" {
			err = errors.New(r.Error)
		}
	case <-ctx.Done():
		err = ctx.Err()
	}
	p.Kill()
	<-p.done
	closeAll(stdin.w, stdout.r, stderr.r)
	if err == nil {
		err = errKeeperEnded
	}
	return nil, fmt.Errorf("start %s: %w", spec.Program, err)
}

// followKeeper reads the keeper's reports until it ends.
func (p *Process) followKeeper(cmd *exec.Cmd, status *os.File, first chan<- report) {
	defer close(p.done)
	lines := bufio.NewScanner(status)
	lines.Buffer(nil, 1<<20)
	reported := false
	for lines.Scan() {
		var r report
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			continue
		}
		if !reported {
			first <- r
			reported = true
		}
		if r.Ended != "" {
			p.ending = r.Ended
		}
	}
	closeAll(status)
	if err := cmd.Wait(); p.ending == "" {
		p.ending = fmt.Sprint("its keeper ended: ", err)
	}
	if !reported {
		first <- report{}
	}
	p.Kill() // closes the pipe
}

// Done is closed after every process of the program has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Ending returns how the program ended, after [Process.Done]: "exit status 0".
func (p *Process) Ending() string { return p.ending }

// Terminate asks every process of the program to end.
func (p *Process) Terminate() { _, _ = p.control.Write([]byte{terminate}) } // an error means that it has ended

// Kill ends every process of the program.
func (p *Process) Kill() { p.once.Do(func() { _ = p.control.Close() }) } // the keeper reads the end of the pipe as this order

type pipe struct{ r, w *os.File }

func openPipes(n int) ([]pipe, error) {
	pipes := make([]pipe, n)
	for i := range pipes {
		var err error
		if pipes[i].r, pipes[i].w, err = os.Pipe(); err != nil {
			for _, p := range pipes[:i] {
				closeAll(p.r, p.w)
			}
			return nil, err
		}
	}
	return pipes, nil
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		_ = f.Close() // closing a pipe loses no data
	}
}
