package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/holdpoint/holdpoint/internal/sandbox"
)

// TestControlGroup: with a delegated control group, the kernel limits each program in its own group.
func TestControlGroup(t *testing.T) {
	t.Parallel()
	const root = "/sys/fs/cgroup"
	text, err := os.ReadFile(root + "/cgroup.subtree_control")
	if err != nil || !strings.Contains(string(text), "memory") || !strings.Contains(string(text), "pids") || unix.Access(root, unix.W_OK) != nil {
		t.Skip("it needs control groups of version 2 that hand on memory and pids, and may be written")
	}
	for name, credential := range map[string]*syscall.Credential{"root": nil, "another account": {Uid: 47_001, Gid: 47_001}} {
		t.Run(name, func(t *testing.T) {
			group, err := os.MkdirTemp(root, "holdpoint-test-")
			if err != nil {
				t.Fatal(err)
			}
			server := filepath.Join(group, "holdpoint-server")
			t.Cleanup(func() {
				if err := errors.Join(os.Remove(server), os.Remove(group)); err != nil {
					t.Errorf("a program's group is left: %v", err)
				}
			})
			if err := errors.Join(os.Chmod(group, 0o755), unix.Setxattr(group, "user.delegate", []byte("1"), 0)); err != nil {
				t.Fatal(err)
			}
			if credential != nil {
				for _, path := range []string{"", "cgroup.procs", "cgroup.subtree_control"} {
					if err := os.Chown(filepath.Join(group, path), int(credential.Uid), int(credential.Gid)); err != nil {
						t.Fatal(err)
					}
				}
			}
			dir, err := os.Open(group)
			if err != nil {
				t.Fatal(err)
			}
			defer dir.Close()
			cmd := exec.CommandContext(t.Context(), specFor(t, false, "").Program)
			cmd.Env = []string{actVariable + "=control-group", "PATH=/usr/bin:/bin"}
			cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd()), Credential: credential}
			if said, err := cmd.CombinedOutput(); err != nil || string(said) != "succeeded\n" {
				t.Errorf("%s, %v", said, err)
			}
		})
	}
}

// useGroup runs programs one after the other in a delegated control group.
func useGroup() error {
	home, err := os.MkdirTemp("", "holdpoint-sandbox-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	for script, want := range map[string]string{
		"grep -q /holdpoint-[A-Z0-9]*$ /proc/self/cgroup":                   "exit status 0",
		"(head -c 200000000 /dev/zero | tail) & wait; sleep 1000":           "its processes used more memory than they may",
		"(while :; do sleep 1000 & done) 2> /dev/null; sleep 1000":          "processes and threads",
		"(setsid sleep 1000 > /dev/null 2>&1 &) ; setsid sleep 1000 & true": "exit status 0",
	} {
		p, err := sandbox.Start(context.Background(), sandbox.Spec{
			Program: "/bin/sh", Args: []string{"sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin"}, Dir: home, Own: []string{home},
			Account: accountOfTest(home), Limits: sandbox.Limits{Memory: 64 << 20, Processes: 64},
		})
		if err != nil {
			return err
		}
		said, _ := io.ReadAll(p.Stderr)
		<-p.Done()
		if !strings.Contains(p.Ending(), want) {
			return fmt.Errorf("%s: %s, %s; want %s", script, p.Ending(), said, want)
		}
	}
	return nil
}

// accountOfTest returns an account to drop to, which owns home.
func accountOfTest(home string) *sandbox.Account {
	if os.Geteuid() != 0 {
		return nil
	}
	account := &sandbox.Account{Name: "test", UID: 47_002, GID: 47_002}
	if err := os.Chown(home, account.UID, account.GID); err != nil {
		return nil
	}
	return account
}
