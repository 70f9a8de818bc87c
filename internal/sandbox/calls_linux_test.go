package sandbox_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/holdpoint/holdpoint/internal/sandbox"
)

const actVariable = "SANDBOX_TEST_ACT"

func TestMain(m *testing.M) {
	if act := os.Getenv(actVariable); act != "" {
		if err := perform(strings.Fields(act)); err != nil {
			fmt.Fprintln(os.Stdout, err)
			os.Exit(1)
		}
		fmt.Fprintln(os.Stdout, "succeeded")
		return
	}
	os.Exit(m.Run())
}

// perform makes the system calls of an act. Acts on a process set values that it already has.
func perform(act []string) error {
	target := act[len(act)-1]
	number, _ := strconv.Atoi(target)
	switch act[0] {
	case "memfd":
		_, err := unix.MemfdCreate("x", 0)
		return err
	case "shared-memory":
		_, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o600)
		return err
	case "io_uring":
		var parameters [120]byte
		return call(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&parameters[0])))
	case "other-numbers": // memfd_create by its x32 number
		return call(0x40000000+unix.SYS_MEMFD_CREATE, uintptr(unsafe.Pointer(&[]byte("x\x00")[0])), 0)
	case "limit":
		var limit unix.Rlimit
		return errors.Join(unix.Prlimit(0, unix.RLIMIT_CORE, nil, &limit), unix.Prlimit(number, unix.RLIMIT_CORE, &limit, nil))
	case "processors":
		var processors unix.CPUSet
		return errors.Join(unix.SchedGetaffinity(0, &processors), unix.SchedSetaffinity(number, &processors))
	case "priority":
		return unix.Setpriority(unix.PRIO_PROCESS, number, 0)
	case "priority-of-account":
		return unix.Setpriority(unix.PRIO_USER, 0, 0)
	case "own-process":
		var limit unix.Rlimit
		var processors unix.CPUSet
		return errors.Join(
			unix.Prlimit(0, unix.RLIMIT_CORE, nil, &limit), unix.Prlimit(0, unix.RLIMIT_CORE, &limit, nil),
			unix.SchedGetaffinity(0, &processors), unix.SchedSetaffinity(0, &processors), unix.Setpriority(unix.PRIO_PROCESS, 0, 1),
		)
	case "connect":
		_, err := net.Dial("unix", target)
		return err
	case "connect-pair":
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_RAW, 0) // SOCK_RAW is treated as SOCK_DGRAM
		if err != nil {
			return err
		}
		return unix.Connect(pair[0], &unix.SockaddrUnix{Name: target})
	case "control-group":
		return useGroup()
	case "pair":
		_, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		return err
	default:
		return changeFile(act[0], target)
	}
}

func call(number, a, b uintptr) error {
	if _, _, errno := unix.Syscall(number, a, b, 0); errno != 0 {
		return errno
	}
	return nil
}

func changeFile(act, path string) error {
	const mode = 0o705
	switch act {
	case "mode":
		return unix.Chmod(path, mode)
	case "mode-of-relative":
		return errors.Join(os.Chdir(filepath.Dir(path)), unix.Chmod(filepath.Base(path), mode))
	case "mode-in-folder":
		dir, err := unix.Open(filepath.Dir(path), unix.O_PATH, 0)
		return errors.Join(err, unix.Fchmodat(dir, filepath.Base(path), mode, 0))
	case "mode-without-following":
		return unix.Fchmodat(unix.AT_FDCWD, path, mode, unix.AT_SYMLINK_NOFOLLOW)
	case "mode-of-open":
		file, err := unix.Open(path, unix.O_RDONLY, 0)
		return errors.Join(err, unix.Fchmod(file, mode))
	case "mode-of-path":
		file, err := unix.Open(path, unix.O_PATH, 0)
		if err != nil {
			return err
		}
		return unix.Chmod("/proc/self/fd/"+strconv.Itoa(file), mode)
	case "mode-of-nameless":
		file, err := unix.Open(path, unix.O_PATH, 0)
		if err != nil {
			return err
		}
		return unix.Fchmodat(file, "", mode, unix.AT_EMPTY_PATH)
	case "mode-through-link":
		return errors.Join(os.Symlink(path, "link"), unix.Chmod("link", mode))
	case "owner":
		return unix.Lchown(path, -1, os.Getgid())
	case "attribute":
		return unix.Lsetxattr(path, "user.x", []byte("y"), 0)
	}
	return errors.ErrUnsupported
}

// specFor returns a spec that performs an act, as this process's account or, if possible, as its own account.
func specFor(t *testing.T, same bool, act string) sandbox.Spec {
	t.Helper()
	spec := shellSpec(t, "")
	if same && spec.Account != nil {
		spec.Account = nil
		if err := os.Chown(spec.Dir, os.Geteuid(), os.Getegid()); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	spec.Program = filepath.Join(openDir(t), "program")
	if err := exec.CommandContext(t.Context(), "cp", self, spec.Program).Run(); err != nil {
		t.Fatal(err)
	}
	spec.Args, spec.Env = []string{"program"}, append(spec.Env, "GORACE=atexit_sleep_ms=0", actVariable+"="+act)
	return spec
}

// TestRefusedCalls: programs cannot leave the sandbox with system calls that Landlock does not check.
func TestRefusedCalls(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	stream, err := net.Listen("unix", filepath.Join(dir, "stream"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stream.Close() })
	datagrams, err := net.ListenPacket("unixgram", filepath.Join(dir, "datagrams"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = datagrams.Close() })
	for _, socket := range []string{"stream", "datagrams"} {
		if err := os.Chmod(filepath.Join(dir, socket), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	us := strconv.Itoa(os.Getpid())
	acts := map[string]bool{ // whether a program with its own account is refused too
		"memfd": true, "shared-memory": true, "io_uring": true, "other-numbers": true,
		"limit " + us: true, "processors " + us: true, "priority " + us: true, "priority-of-account": false,
		"mode " + file: true, "mode-of-relative " + file: true, "mode-in-folder " + file: true, "mode-without-following " + file: true,
		"mode-of-path " + file: true, "mode-of-nameless " + file: true, "mode-through-link " + file: true, "mode-of-open " + file: true,
		"owner " + file: true, "attribute " + file: true,
		"connect " + dir + "/stream": false, "connect-pair " + dir + "/datagrams": false,
	}
	for act, always := range acts {
		for _, same := range []bool{false, true} {
			if !same && (!always || os.Geteuid() != 0) {
				continue
			}
			t.Run(fmt.Sprintf("%s, same account %t", strings.Fields(act)[0], same), func(t *testing.T) {
				t.Parallel()
				spec := specFor(t, same, act)
				spec.Read, spec.Roots = []string{file}, []string{dir}
				if got := run(t, spec); got.ending != "exit status 1" || got.out == "" || strings.Contains(got.out, "succeeded") {
					t.Errorf("%s: out %q, err %q, %s", act, got.out, got.err, got.ending)
				}
			})
		}
	}
	t.Cleanup(func() {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o644 {
			t.Errorf("the file: %v, %v", info, err)
		}
	})
}

// TestOrdinaryCalls: the same system calls work on the program's own process and files.
func TestOrdinaryCalls(t *testing.T) {
	t.Parallel()
	for _, act := range []string{
		"mode", "mode-of-relative", "mode-in-folder", "mode-without-following", "mode-of-open", "mode-of-nameless", "mode-through-link", "own-process", "pair",
	} {
		for _, same := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, same account %t", act, same), func(t *testing.T) {
				t.Parallel()
				spec := specFor(t, same, act)
				file := filepath.Join(spec.Dir, "file")
				if err := os.WriteFile(file, nil, 0o600); err != nil {
					t.Fatal(err)
				}
				if spec.Account != nil {
					if err := os.Chown(file, spec.Account.UID, spec.Account.GID); err != nil {
						t.Fatal(err)
					}
				}
				spec.Env[len(spec.Env)-1] += " " + file
				got := run(t, spec)
				info, err := os.Stat(file)
				if got.out != "succeeded\n" || err != nil || strings.HasPrefix(act, "mode") && info.Mode().Perm() != 0o705 {
					t.Errorf("out %q, err %q, %s; %v", got.out, got.err, got.ending, info.Mode())
				}
			})
		}
	}
}
