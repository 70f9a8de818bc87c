package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// hiddenEnvironment names the open file that holds the rest of a process's environment.
const hiddenEnvironment = "HOLDPOINT_ENVIRONMENT_FD"

// hideEnvironment restarts this program, in the same process, without the secret part of its environment: the kernel shows
// the environment that a process starts with in /proc/PID/environ for as long as the process lives. The restarted program
// reads the rest from an open file. Other processes can then not trace it or read its memory.
//
// Only the commands that run programs of skills do this.
func hideEnvironment(args []string) error {
	if text, ok := os.LookupEnv(hiddenEnvironment); ok {
		if err := os.Unsetenv(hiddenEnvironment); err != nil {
			return err
		}
		if err := readEnvironment(text); err != nil {
			return fmt.Errorf("read the environment: %w", err)
		}
		return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	}
	if !slices.ContainsFunc(args, func(arg string) bool { return arg == "serve" || arg == "demo" || arg == "doctor" }) {
		return nil
	}
	var shown, hidden []string
	public := []string{"PATH", "HOME", "LANG", "TZ", "GODEBUG", "GOGC", "GOMEMLIMIT", "GOMAXPROCS", "GOTRACEBACK", "GORACE"}
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if slices.Contains(public, name) || strings.HasPrefix(name, "LC_") { // Go's runtime and the system's libraries read them at the start
			shown = append(shown, variable)
		} else {
			hidden = append(hidden, variable)
		}
	}
	text, err := json.Marshal(hidden)
	if err != nil {
		return err
	}
	fd, err := unix.MemfdCreate("holdpoint-environment", 0) // stays open in the restarted program
	if err != nil {
		return fmt.Errorf("hide the environment: %w", err)
	}
	if _, err := unix.Pwrite(fd, text, 0); err != nil {
		return fmt.Errorf("hide the environment: %w", err)
	}
	shown = append(shown, fmt.Sprintf("%s=%d", hiddenEnvironment, fd))
	return fmt.Errorf("hide the environment: %w", syscall.Exec("/proc/self/exe", os.Args, shown)) //nolint:gosec // G204: this program
}

func readEnvironment(descriptor string) error {
	var fd int
	if _, err := fmt.Sscanf(descriptor, "%d", &fd); err != nil || fd < 3 {
		return fmt.Errorf("%s %q: must be an open file", hiddenEnvironment, descriptor)
	}
	file := os.NewFile(uintptr(fd), "environment")
	text, err := io.ReadAll(io.NewSectionReader(file, 0, 16<<20))
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	var hidden []string
	if err := json.Unmarshal(text, &hidden); err != nil {
		return err
	}
	for _, variable := range hidden {
		name, value, _ := strings.Cut(variable, "=")
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	return nil
}
