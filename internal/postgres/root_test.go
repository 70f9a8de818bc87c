package postgres_test

import (
	"io"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/holdpoint/holdpoint/internal/postgres"
)

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("this is about what root meets with")
	}
}

func TestRootDropsPrivilegesOfServerOnly(t *testing.T) {
	t.Parallel()
	needRoot(t)
	dir := dataDir(t)
	openDB(t, postgres.Config{DataDir: dir})
	info, err := os.Stat("/proc/" + strconv.Itoa(findPostmaster(t, dir)))
	if err != nil {
		t.Fatal(err)
	}
	if owner := info.Sys().(*syscall.Stat_t).Uid; owner == 0 {
		t.Error("the server runs as root")
	}
	for path, mode := range map[string]os.FileMode{dir: 0o711, dir + "/postgres": 0o711, dir + "/postgres/log": 0o600} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != mode || info.Sys().(*syscall.Stat_t).Uid != 0 {
			t.Errorf("%s: mode %v, owner %d; want %v and root", path, info.Mode(), info.Sys().(*syscall.Stat_t).Uid, mode)
		}
	}
}

func TestUmaskDoesNotShutServerOut(t *testing.T) {
	needRoot(t) // not parallel: the process has one umask
	before := syscall.Umask(0o077)
	defer syscall.Umask(before)
	dir := dataDir(t)
	openDB(t, postgres.Config{DataDir: filepath.Join(dir, "deeper")})
}

func TestUntraversableDataDir(t *testing.T) {
	t.Parallel()
	needRoot(t)
	closed := t.TempDir() // only root can enter its parent
	_, err := postgres.Open(t.Context(), postgres.Config{DataDir: filepath.Join(closed, "data")})
	if err == nil || !strings.Contains(err.Error(), filepath.Dir(closed)) || !strings.Contains(err.Error(), "chmod o+x") {
		t.Errorf("error %v; want it to name %s", err, filepath.Dir(closed))
	}
}

func TestOrdinaryUser(t *testing.T) {
	t.Parallel()
	needRoot(t)
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := strconv.Atoi(nobody.Uid)
	gid, _ := strconv.Atoi(nobody.Gid)
	home := filepath.Dir(dataDir(t))
	if err := os.Chown(home, uid, gid); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(home, "data")
	child := startMember(t, copyOfSelf(t), dir, &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)},
	})
	pid := findPostmaster(t, dir)
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if stat := info.Sys().(*syscall.Stat_t); int(stat.Uid) != uid || info.Mode().Perm() != 0o700 {
		t.Errorf("data directory has mode %v and owner %d", info.Mode(), stat.Uid)
	}
	// Root opens the cluster as its owner left it.
	db := openDB(t, postgres.Config{DataDir: dir})
	if findPostmaster(t, dir) != pid {
		t.Error("root started another server")
	}
	closeDB(t, db)
	child.leave(t)
	if findPostmaster(t, dir) != 0 {
		t.Error("the server outlived its last user")
	}
}

// copyOfSelf copies the test binary to where other accounts can run it.
func copyOfSelf(t *testing.T) string {
	t.Helper()
	source, err := os.Open(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	path := filepath.Join(filepath.Dir(dataDir(t)), "member")
	target, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(target, source); err != nil {
		t.Fatal(err)
	}
	if err := target.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}
