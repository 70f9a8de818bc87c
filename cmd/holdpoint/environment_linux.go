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

// hiddenEnvironment is the variable that says where a process finds the rest of its environment: in an open file.
const hiddenEnvironment = "HOLDPOINT_ENVIRONMENT_FD"

// hideEnvironment starts this program anew, in the same process, with an environment that others on the machine may see:
// the kernel shows the one that a process starts with in /proc/PID/environ for as long as it lives. The rest goes by an open
// file, and is read back into memory. Nothing can trace the process or read its memory.
//
// It does so for the commands that run programs of skills.
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
	shown, hidden := splitEnvironment(os.Environ())
	text, err := json.Marshal(hidden)
	if err != nil {
		return err
	}
	fd, err := unix.MemfdCreate("holdpoint-environment", 0) // open in what follows
	if err != nil {
		return fmt.Errorf("hide the environment: %w", err)
	}
	if _, err := unix.Pwrite(fd, text, 0); err != nil {
		return fmt.Errorf("hide the environment: %w", err)
	}
	shown = append(shown, fmt.Sprintf("%s=%d", hiddenEnvironment, fd))
	return fmt.Errorf("hide the environment: %w", syscall.Exec("/proc/self/exe", os.Args, shown)) //nolint:gosec // G204: this program
}

// splitEnvironment parts what Go's runtime and the system's libraries read at the start from everything else.
func splitEnvironment(all []string) (shown, hidden []string) {
	for _, variable := range all {
		name, _, _ := strings.Cut(variable, "=")
		switch {
		case slices.Contains([]string{"PATH", "HOME", "LANG", "TZ", "GODEBUG", "GOGC", "GOMEMLIMIT", "GOMAXPROCS", "GOTRACEBACK", "GORACE"}, name),
			strings.HasPrefix(name, "LC_"):
			shown = append(shown, variable)
		default:
			hidden = append(hidden, variable)
		}
	}
	return shown, hidden
}

func readEnvironment(descriptor string) error {
	var fd int
	if _, err := fmt.Sscanf(descriptor, "%d", &fd); err != nil || fd < 3 {
		return fmt.Errorf("%s is %q", hiddenEnvironment, descriptor)
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
