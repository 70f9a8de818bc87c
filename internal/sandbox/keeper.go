package sandbox

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// The names under which this executable starts as a program's keeper, and as the process that enters the sandbox.
const (
	keeperName = "holdpoint-keeper"
	enterName  = "holdpoint-enter"
)

// listenerSocket is the file by which the process that enters the sandbox hands out its listener.
const listenerSocket = 5

const (
	terminate  = 'T' // on the control pipe; its end means kill
	watchEvery = 250 * time.Millisecond

	// The kernel lets a tree have so many more processes than the keeper does, or a tree that is full would go unseen
	// as soon as the process that could not start another one has ended.
	moreProcesses = 64
)

// init turns a process that was started under one of the names into what the name says. Every executable that starts
// programs has this package, so tests need nothing of their own.
func init() { //nolint:gochecknoinits // see above
	if len(os.Args) != 1 {
		return
	}
	switch os.Args[0] {
	case keeperName:
		os.Exit(keep())
	case enterName:
		os.Exit(enter())
	}
}

// keeper is the process that stands beside a program's sandbox.
type keeper struct {
	spec   Spec
	status *json.Encoder
	pid    int
	why    string // it ended the program
}

// keep starts the program, and returns after all its processes have ended.
func keep() int {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	control := bufio.NewReader(os.NewFile(3, "control"))
	k := &keeper{status: json.NewEncoder(os.NewFile(4, "status"))}
	text, err := control.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(text, &k.spec)
	}
	if err == nil {
		err = adoptOrphans()
	}
	if err != nil {
		_ = k.status.Encode(report{Error: err.Error()})
		return 1
	}
	group := openGroup(k.spec.Limits)
	defer group.remove()
	notes, err := k.start(text, group)
	if err != nil {
		k.killTree(group)
		_ = k.status.Encode(report{Error: err.Error()})
		return 1
	}
	ended := make(chan syscall.WaitStatus, 1)
	go reap(k.pid, ended)
	_ = k.status.Encode(report{PID: k.pid, Notes: notes})
	how := k.watch(control, ended, group)
	k.killTree(group)
	_ = k.status.Encode(report{Ended: how})
	return 0
}

// start starts the process that becomes the program, and waits until it has.
func (k *keeper) start(text []byte, group *cgroup) (notes []string, err error) {
	pipes, err := openPipes(2)
	if err != nil {
		return nil, err
	}
	spec, answer := pipes[0], pipes[1]
	modes, err := newModeKeeper()
	if err != nil {
		return nil, err
	}
	cmd := &exec.Cmd{
		Path: self(), Args: []string{enterName}, Dir: "/", Env: []string{"GOMAXPROCS=1"},
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, ExtraFiles: []*os.File{spec.r, answer.w, modes.theirs},
		SysProcAttr: enterAttributes(group),
	}
	err = cmd.Start()
	closeAll(spec.r, answer.w, modes.theirs, os.Stdin, os.Stdout, os.Stderr) // the program alone keeps them open
	if err != nil {
		return nil, err
	}
	k.pid = cmd.Process.Pid
	go func() {
		_, _ = spec.w.Write(text) // it says what is wrong with it
		closeAll(spec.w)
	}()
	defer closeAll(answer.r)
	answers, told := json.NewDecoder(answer.r), false // the pipe ends when the program begins
	for {
		var r report
		switch err := answers.Decode(&r); {
		case err != nil && !told:
			return nil, errors.New("it ended on its way into the sandbox")
		case err != nil:
			return notes, nil
		case r.Error != "":
			return nil, errors.New(r.Error)
		}
		notes, told = r.Notes, true
		if r.Listens {
			listener, err := modes.receive()
			if err != nil {
				return nil, err
			}
			go serveModes(listener, r.Folders)
		}
	}
}

// reap waits for every child: the program, and the orphans of its tree.
func reap(pid int, ended chan<- syscall.WaitStatus) {
	for {
		var status syscall.WaitStatus
		got, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case got == pid && (status.Exited() || status.Signaled()):
			ended <- status
		case errors.Is(err, syscall.ECHILD):
			time.Sleep(watchEvery) //nolint:forbidigo // an orphan may still come
		}
	}
}

// watch waits for the program's end, or for a reason to end it.
func (k *keeper) watch(control io.Reader, ended <-chan syscall.WaitStatus, group *cgroup) string {
	orders := make(chan byte)
	go func() {
		defer close(orders)
		order := make([]byte, 1)
		for {
			if n, err := control.Read(order); n == 0 || err != nil {
				return
			}
			orders <- order[0]
		}
	}()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case status := <-ended:
			if k.why == "" && group.outOfMemory() {
				k.why = "its processes used more memory than they may"
			}
			return howEnded(status, k.why)
		case _, more := <-orders:
			if !more {
				k.killTree(group)
				orders = nil
				continue
			}
			k.signalTree(syscall.SIGTERM)
		case <-tick.C:
			if why := k.excess(group); why != "" {
				k.why = why
				k.killTree(group)
			}
		}
	}
}

// excess says which limit the tree exceeds. Memory in a control group is the kernel's to count: it knows what is shared.
func (k *keeper) excess(group *cgroup) string {
	processes, memory := 0, int64(0)
	for _, p := range tree(k.pid) {
		processes += p.threads
		if group == nil {
			memory += p.memory()
		}
	}
	switch l := k.spec.Limits; {
	case memory > l.Memory:
		return fmt.Sprintf("its processes used %d MiB of memory, and may use %d", memory>>20, l.Memory>>20)
	case processes > l.Processes:
		return fmt.Sprintf("it has %d processes and threads, and may have %d", processes, l.Processes)
	}
	return ""
}

func howEnded(status syscall.WaitStatus, why string) string {
	how := fmt.Sprintf("exit status %d", status.ExitStatus())
	if status.Signaled() {
		how = "signal: " + status.Signal().String()
	}
	if why != "" {
		how += ": " + why
	}
	return how
}

func (k *keeper) signalTree(signal syscall.Signal) {
	for _, p := range tree(k.pid) {
		p.signal(signal)
	}
}

// killTree returns when no process is left. All are stopped first: a stopped process does not fork, and
// counts, so that nobody else can either.
func (k *keeper) killTree(group *cgroup) {
	group.kill()
	for quiet := 0; quiet < 2; {
		if len(tree(k.pid)) == 0 {
			quiet++
			continue
		}
		quiet = 0
		for range 3 {
			k.signalTree(syscall.SIGSTOP)
		}
		k.signalTree(syscall.SIGKILL)
		time.Sleep(time.Millisecond) //nolint:forbidigo // the kernel ends them
	}
}
