package sandbox

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// Spec is a program and what it may reach. Paths are absolute.
type Spec struct {
	Program string   // the file to run
	Args    []string // with the program's name first
	Env     []string // all of its environment
	Dir     string   // where it starts

	// Account is whom it runs as. Nil: as this process.
	Account *Account
	// Own are folders of its own: it may do everything there.
	Own []string
	// Read and Write are what it may use besides. Each must lie in one of Roots, and neither contain nor be part of Keep.
	Read, Write []string
	Roots, Keep []string
	// Hide are folders that it may not read, although they may lie in a system folder.
	Hide []string

	Limits Limits
	// Open leaves the sandbox out: the program may do all that this process may. Limits hold all the same.
	Open bool
}

// Account is a user of the machine.
type Account struct {
	Name     string // for messages
	UID, GID int
}

// Limits bound a program with all the processes that it starts. Zero fields have the defaults named.
type Limits struct {
	Processes int   // and threads. Default 512
	Memory    int64 // bytes that its processes use together. Default 2 GiB
	FileSize  int64 // bytes of one file. Default 4 GiB
	Files     int   // open files of one process. Default 4,096
}

func (l Limits) withDefaults() Limits {
	if l.Processes == 0 {
		l.Processes = 512
	}
	if l.Memory == 0 {
		l.Memory = 2 << 30
	}
	if l.FileSize == 0 {
		l.FileSize = 4 << 30
	}
	if l.Files == 0 {
		l.Files = 4096
	}
	return l
}

// Process is a program that was started.
type Process struct {
	PID int
	// Notes say which paths the program is refused, and by whom.
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

	// Listens says that the program has the keeper change the modes of files, in these folders and files.
	Listens bool     `json:"listens,omitempty"`
	Folders []string `json:"folders,omitempty"`
}

// Start starts a program. ctx bounds the start only.
func Start(ctx context.Context, spec Spec) (*Process, error) {
	spec.Limits = spec.Limits.withDefaults()
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
		Path: self(), Args: []string{keeperName}, Dir: "/", Env: []string{"GOMAXPROCS=2", "GOGC=50"},
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
	go p.follow(cmd, status.r, first)
	if _, err = control.w.Write(append(text, '\n')); err != nil {
		err = errors.New("its keeper ended")
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
		err = errors.New("its keeper ended")
	}
	return nil, fmt.Errorf("start %s: %w", spec.Program, err)
}

// follow reads what the keeper reports until it ends.
func (p *Process) follow(cmd *exec.Cmd, status *os.File, first chan<- report) {
	defer close(p.done)
	lines := bufio.NewScanner(status)
	lines.Buffer(nil, 1<<20)
	said := false
	for lines.Scan() {
		var r report
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			continue
		}
		if !said {
			first <- r
			said = true
		}
		if r.Ended != "" {
			p.ending = r.Ended
		}
	}
	closeAll(status)
	if err := cmd.Wait(); p.ending == "" {
		p.ending = fmt.Sprint("its keeper ended: ", err)
	}
	if !said {
		first <- report{}
	}
	p.Kill() // closes the pipe
}

// Done is closed after every process of the program has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Ending says how the program ended, after [Process.Done]: "exit status 0".
func (p *Process) Ending() string { return p.ending }

// Terminate asks every process of the program to end.
func (p *Process) Terminate() { _, _ = p.control.Write([]byte{terminate}) } // else it has ended

// Kill ends every process of the program.
func (p *Process) Kill() { p.once.Do(func() { _ = p.control.Close() }) } // the keeper takes its end for the order

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
		_ = f.Close() // pipes, of which nothing is lost
	}
}
