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

// The names that this executable starts under as a program's keeper, and as the process that enters the sandbox.
const (
	keeperName = "holdpoint-keeper"
	enterName  = "holdpoint-enter"
)

// listenerSocket is the file that the process in the sandbox sends its listener through.
const listenerSocket = 5

const (
	terminate  = 'T' // on the control pipe; its end means kill
	watchEvery = 250 * time.Millisecond

	// The kernel allows this many more processes than the keeper, so that the keeper notices a tree that exceeds its limit.
	moreProcesses = 64
)

// init runs the keeper, or enters the sandbox, if the process was started under one of the names. Every executable that
// starts programs has this package, so tests need no setup.
func init() { //nolint:gochecknoinits // see above
	if len(os.Args) != 1 {
		return
	}
	switch os.Args[0] {
	case keeperName:
		os.Exit(keepProgram())
	case enterName:
		os.Exit(enterSandbox())
	}
}

// keeper is the process that starts and ends a program, outside its sandbox.
type keeper struct {
	spec   Spec
	status *json.Encoder
	pid    int
	reason string // why it ended the program
}

// keepProgram starts the program, and returns after all its processes have ended.
func keepProgram() int {
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
	notes, err := k.startProgram(text, group)
	if err != nil {
		k.killTree(group)
		_ = k.status.Encode(report{Error: err.Error()})
		return 1
	}
	ended := make(chan syscall.WaitStatus, 1)
	go reapChildren(k.pid, ended)
	_ = k.status.Encode(report{PID: k.pid, Notes: notes})
	how := k.watchProgram(control, ended, group)
	k.killTree(group)
	_ = k.status.Encode(report{Ended: how})
	return 0
}

// startProgram starts the process that becomes the program, and waits until it has.
func (k *keeper) startProgram(text []byte, group *cgroup) (notes []string, err error) {
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
		Path: selfPath(), Args: []string{enterName}, Dir: "/", Env: append(raceEnvironment(), "GOMAXPROCS=1"),
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
		_, _ = spec.w.Write(text) // the process reports errors
		closeAll(spec.w)
	}()
	defer closeAll(answer.r)
	answers, answered := json.NewDecoder(answer.r), false // the pipe closes when the program starts
	for {
		var r report
		switch err := answers.Decode(&r); {
		case err != nil && !answered:
			return nil, errors.New("the process ended while it entered the sandbox")
		case err != nil:
			return notes, nil
		case r.Error != "":
			return nil, errors.New(r.Error)
		}
		notes, answered = r.Notes, true
		if r.Listens {
			listener, err := modes.receiveListener()
			if err != nil {
				return nil, err
			}
			go serveModes(listener, r.Folders)
		}
	}
}

// reapChildren waits for every child: the program, and the orphans of its tree.
func reapChildren(pid int, ended chan<- syscall.WaitStatus) {
	for {
		var status syscall.WaitStatus
		got, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case got == pid && (status.Exited() || status.Signaled()):
			ended <- status
		case errors.Is(err, syscall.ECHILD):
			time.Sleep(watchEvery) //nolint:forbidigo // another orphan may follow
		}
	}
}

// watchProgram waits until the program ends, or ends it if it exceeds a limit. It returns how the program ended.
func (k *keeper) watchProgram(control io.Reader, ended <-chan syscall.WaitStatus, group *cgroup) string {
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
			if k.reason == "" && group.outOfMemory() {
				k.reason = "its processes used more memory than they may"
			}
			end := fmt.Sprintf("exit status %d", status.ExitStatus())
			if status.Signaled() {
				end = "signal: " + status.Signal().String()
			}
			if k.reason != "" {
				end += ": " + k.reason
			}
			return end
		case _, more := <-orders:
			if !more {
				k.killTree(group)
				orders = nil
				continue
			}
			k.signalTree(syscall.SIGTERM)
		case <-tick.C:
			if reason := k.exceededLimit(group); reason != "" {
				k.reason = reason
				k.killTree(group)
			}
		}
	}
}

// exceededLimit says which limit the tree exceeds. In a control group the kernel limits memory, and counts shared memory once.
func (k *keeper) exceededLimit(group *cgroup) string {
	processes, memory := 0, int64(0)
	for _, p := range processTree(k.pid) {
		processes += p.threads
		if group == nil {
			memory += p.memoryUse()
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

func (k *keeper) signalTree(signal syscall.Signal) {
	for _, p := range processTree(k.pid) {
		p.sendSignal(signal)
	}
}

// killTree kills all processes and returns when none is left. It stops them first: a stopped process cannot fork, and still
// counts for the limit of processes.
func (k *keeper) killTree(group *cgroup) {
	group.killAll()
	for quiet := 0; quiet < 2; {
		if len(processTree(k.pid)) == 0 {
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
