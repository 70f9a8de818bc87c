package sandbox_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/internal/sandbox"
)

// openDir returns a folder that other accounts can traverse.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "holdpoint-sandbox-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// shellSpec returns a spec that runs a script in its own home.
func shellSpec(t *testing.T, script string) sandbox.Spec {
	t.Helper()
	dir := openDir(t)
	home := filepath.Join(dir, "homes", "one")
	spec := sandbox.Spec{
		Program: "/bin/sh", Args: []string{"sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin", "HOME=" + home},
		Dir: home, Own: []string{home},
	}
	if os.Geteuid() == 0 {
		account, err := sandbox.OwnAccount(filepath.Join(dir, "accounts"), t.Name())
		if err != nil {
			t.Fatal(err)
		}
		spec.Account = account
	}
	if err := sandbox.PrivateDir(home, spec.Account); err != nil {
		t.Fatal(err)
	}
	return spec
}

type ended struct{ out, err, ending string }

// run runs a spec until it ends.
func run(t *testing.T, spec sandbox.Spec) ended {
	t.Helper()
	p := start(t, spec)
	_ = p.Stdin.Close()
	out, _ := io.ReadAll(p.Stdout)
	said, _ := io.ReadAll(p.Stderr)
	<-p.Done()
	return ended{string(out), string(said), p.Ending()}
}

func start(t *testing.T, spec sandbox.Spec) *sandbox.Process {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p, err := sandbox.Start(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		<-p.Done()
		for _, f := range []*os.File{p.Stdin, p.Stdout, p.Stderr} {
			_ = f.Close()
		}
	})
	return p
}

// TestOrdinaryWork: programs can use their home, system folders, pipes, devices and child processes.
func TestOrdinaryWork(t *testing.T) {
	t.Parallel()
	got := run(t, shellSpec(t, `set -e
		echo hello > file && mkdir -p a/b && mv file a/b/ && cat a/b/file
		ls /usr/bin > /dev/null; cat /etc/passwd > /dev/null; read stat < /proc/self/stat
		(sleep 0.01; echo child) | cat; id -u
		while read name value; do case $name in CapPrm:|CapEff:|CapAmb:|NoNewPrivs:) echo $name $value; esac; done < /proc/self/status`))
	want := fmt.Sprintf("hello\nchild\n%d\nCapPrm: 0000000000000000\nCapEff: 0000000000000000\nCapAmb: 0000000000000000\nNoNewPrivs: 1\n", uidOf(t))
	if got.ending != "exit status 0" || got.out != want {
		t.Errorf("out %q\nerr %q\nending %s\nwant %q", got.out, got.err, got.ending, want)
	}
}

func uidOf(t *testing.T) int {
	t.Helper()
	if os.Geteuid() != 0 {
		return os.Geteuid()
	}
	account, err := sandbox.OwnAccount(filepath.Join(openDir(t), "accounts"), t.Name())
	if err != nil {
		t.Fatal(err)
	}
	return account.UID
}

// TestOutOfReach: files that are not granted are refused, even if their permissions allow everyone.
func TestOutOfReach(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("treasure"), 0o666); err != nil {
		t.Fatal(err)
	}
	_ = os.Chmod(secret, 0o666)
	for name, script := range map[string]string{
		"read":           "cat " + secret,
		"write":          "echo x > " + secret,
		"list":           "ls " + dir,
		"create":         "echo x > " + dir + "/new",
		"link":           "ln " + secret + " stolen && cat stolen",
		"symlink":        "ln -s " + secret + " way && cat way",
		"parent":         fmt.Sprintf("cat /proc/%d/cmdline", os.Getpid()),
		"environment":    fmt.Sprintf("cat /proc/%d/environ", os.Getpid()),
		"memory":         fmt.Sprintf("head -c1 /proc/%d/mem", os.Getpid()),
		"signal":         fmt.Sprintf("kill -0 %d", os.Getpid()),
		"keeper":         "kill -9 $PPID",
		"keeper's files": "ls /proc/$PPID/fd/",
		"other homes":    "ls ..",
		"temporary":      "ls /tmp",
		"root":           "ls /",
		"set-user-id":    "su root -c id",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := run(t, shellSpec(t, "("+script+") && echo succeeded"))
			if strings.Contains(got.out, "succeeded") || strings.Contains(got.out, "treasure") {
				t.Errorf("out %q, err %q, %s", got.out, got.err, got.ending)
			}
		})
	}
	if text, err := os.ReadFile(secret); err != nil || string(text) != "treasure" {
		t.Errorf("the file is %q now, %v", text, err)
	}
}

// TestDeclaredPaths: declared paths are granted for reading or writing, if the server allows them.
func TestDeclaredPaths(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	for _, name := range []string{"read", "write", "keep"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o777); err != nil {
			t.Fatal(err)
		}
		_ = os.Chmod(filepath.Join(dir, name), 0o777)
		if err := os.WriteFile(filepath.Join(dir, name, "file"), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	spec := shellSpec(t, fmt.Sprintf("cd %s; cat read/file write/file; echo new > write/new && cat write/new; echo x > read/x; cat keep/file", dir))
	spec.Read, spec.Write = []string{dir + "/read"}, []string{dir + "/write"}
	spec.Roots, spec.Keep = []string{dir}, []string{dir + "/keep"}
	if got := run(t, spec); got.out != "readwritenew\n" {
		t.Errorf("out %q, err %q", got.out, got.err)
	}
	if err := os.Symlink(dir+"/keep", dir+"/write/way"); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"kept": dir + "/keep", "above": dir, "through a link": dir + "/write/way", "elsewhere": "/etc"} {
		spec := spec
		spec.Read = []string{path}
		if _, err := sandbox.Start(t.Context(), spec); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNotesNameTheCause: the start reports whether file permissions or the sandbox refuse a path.
func TestNotesNameTheCause(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	closed := filepath.Join(dir, "closed")
	if err := os.WriteFile(filepath.Join(dir, "script"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(closed, 0o755); err != nil {
		t.Fatal(err)
	}
	spec := shellSpec(t, "true")
	spec.Args = append(spec.Args, filepath.Join(dir, "script"))
	spec.Write, spec.Roots = []string{closed}, []string{dir}
	notes := strings.Join(start(t, spec).Notes, "\n")
	if !strings.Contains(notes, "the sandbox refuses "+dir+"/script") {
		t.Errorf("notes: %s", notes)
	}
	if os.Geteuid() == 0 && !strings.Contains(notes, "file permissions, not the sandbox, refuse writing of "+closed) {
		t.Errorf("notes: %s", notes)
	}
}

// TestTreeEnds: when a program ends, all its processes end, even in other sessions.
func TestTreeEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*sandbox.Process){
		"it ends":     func(p *sandbox.Process) { _ = p.Stdin.Close() },
		"it is told":  (*sandbox.Process).Terminate,
		"it is ended": (*sandbox.Process).Kill,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, shellSpec(t, `setsid sh -c 'trap "" TERM HUP; echo $$; sleep 1000' & setsid setsid sh -c 'sleep 1001' & read x`))
			line, err := bufio.NewReader(p.Stdout).ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			end(p)
			select {
			case <-p.Done():
			case <-time.After(time.Minute):
				t.Fatal("it lives")
			}
			if _, err := os.Stat("/proc/" + strings.TrimSpace(line)); err == nil {
				t.Error("what it started lives")
			}
		})
	}
}

// TestForkBomb: a fork bomb harms only its own program, even if it stops forking.
func TestForkBomb(t *testing.T) {
	t.Parallel()
	spec := shellSpec(t, `(while :; do sleep 1000 & done) 2> /dev/null & exec sleep 1000`)
	spec.Limits.Processes = 64
	if got := run(t, spec); !strings.Contains(got.ending, "processes and threads, and may have 64") {
		t.Errorf("%s: %s", got.ending, got.err[:min(len(got.err), 300)])
	}
}

// TestMemory: a process tree over its memory limit is killed, even if each process is below it.
func TestMemory(t *testing.T) {
	t.Parallel()
	spec := shellSpec(t, `for i in 1 2 3 4; do (head -c 30000000 /dev/zero | tail; sleep 1000) & done; wait`)
	spec.Limits.Memory = 64 << 20
	got := run(t, spec)
	if !strings.Contains(got.ending, "MiB of memory") {
		t.Errorf("%s: %s", got.ending, got.err)
	}
}

// TestEveryNameHasItsAccount: two names never share an account, and a name keeps its own.
func TestEveryNameHasItsAccount(t *testing.T) {
	t.Parallel()
	dir, owners := t.TempDir(), map[int]string{}
	for round := range 2 {
		for i := range 300 {
			name := fmt.Sprint("skill ", i)
			a, err := sandbox.OwnAccount(dir, name)
			if err != nil {
				t.Fatal(err)
			}
			if owner, taken := owners[a.UID]; taken != (round == 1) || taken && owner != name {
				t.Fatalf("round %d: %d belongs to %q, and to %q", round, a.UID, owner, name)
			}
			owners[a.UID] = name
		}
	}
	// If a name's number is taken, the name gets another one and keeps it.
	first, err := sandbox.OwnAccount(t.TempDir(), "a")
	if err != nil {
		t.Fatal(err)
	}
	taken := t.TempDir()
	if err := os.WriteFile(filepath.Join(taken, strconv.Itoa(first.UID)), []byte("b"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if a, err := sandbox.OwnAccount(taken, "a"); err != nil || a.UID == first.UID {
			t.Errorf("%v, %v", a, err)
		}
	}
}
