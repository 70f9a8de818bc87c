package postgres

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

const rootDataDir = "/var/lib/holdpoint"

// DefaultDataDir returns the default data directory: /var/lib/holdpoint for root, because no other account can enter root's
// home, else a directory in the user's data (XDG).
func DefaultDataDir(getenv func(string) string) (string, error) {
	if os.Geteuid() == 0 {
		return rootDataDir, nil
	}
	if dir := getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "holdpoint"), nil
	}
	home := getenv("HOME")
	if !filepath.IsAbs(home) {
		return "", errors.New("find data directory: HOME is not set to an absolute path; name a data directory")
	}
	if info, err := os.Stat(home); err != nil || !info.IsDir() {
		return "", fmt.Errorf("find data directory: the home directory %s does not exist; name a data directory", home)
	}
	return filepath.Join(home, ".local", "share", "holdpoint"), nil
}

// makeDir makes dir and its missing parents with exactly this mode, despite the umask. Existing directories keep theirs.
func makeDir(dir string, mode fs.FileMode) error {
	info, err := os.Stat(dir)
	switch {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return fmt.Errorf("make directory %s: a file is in its place", dir)
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("make directory %s: %w", dir, err)
	}
	if parent := filepath.Dir(dir); parent != dir {
		if err := makeDir(parent, mode); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, mode); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil // another process was faster
		}
		return fmt.Errorf("make directory %s: %w", dir, err)
	}
	if err := os.Chmod(dir, mode); err != nil {
		return fmt.Errorf("make directory %s: %w", dir, err)
	}
	return nil
}

// privateDir makes dir for the account alone, or uses an existing directory if no other account could write to it.
func privateDir(dir string, acct account) error {
	err := os.Mkdir(dir, 0o700)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make directory %s: %w", dir, err)
	}
	if err == nil {
		return acct.chownFile(dir)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("examine directory %s: %w", dir, err)
	}
	uid, known := fileOwner(info)
	if !info.IsDir() || !known || info.Mode().Perm()&0o077 != 0 || (uid != acct.uid && uid != 0) {
		return fmt.Errorf("use directory %s: it exists and is not a directory of %s alone", dir, acct.name)
	}
	return acct.chownFile(dir)
}

func fileOwner(info fs.FileInfo) (uid uint32, known bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return stat.Uid, true
}

// findBarrier returns the first directory on the way to dir that the account may not pass through, by the mode bits.
func findBarrier(dir string, acct account) (string, bool) {
	way := []string{dir}
	for parent := filepath.Dir(dir); parent != way[len(way)-1]; parent = filepath.Dir(parent) {
		way = append(way, parent)
	}
	for _, step := range slices.Backward(way) {
		info, err := os.Stat(step)
		if err != nil {
			continue
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			continue
		}
		pass := info.Mode().Perm() & 0o001
		switch {
		case stat.Uid == acct.uid:
			pass = info.Mode().Perm() & 0o100
		case stat.Gid == acct.gid:
			pass = info.Mode().Perm() & 0o010
		}
		if pass == 0 {
			return step, true
		}
	}
	return "", false
}
