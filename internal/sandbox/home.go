package sandbox

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// PrivateDir makes a folder that only the account can enter. If another account owned the folder, all files in it change
// their owner. A nil account is this process's own.
func PrivateDir(dir string, account *Account) error {
	above := fs.FileMode(0o700)
	if account != nil {
		above = 0o711 // to pass through
	}
	for _, parent := range []string{filepath.Dir(filepath.Dir(dir)), filepath.Dir(dir)} {
		if err := makeFolder(parent, above); err != nil {
			return err
		}
	}
	if err := os.Chmod(filepath.Dir(dir), above); err != nil {
		return fmt.Errorf("make private folder: %w", err)
	}
	if err := makeFolder(dir, 0o700); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o700); err != nil { //nolint:gosec // G302: only its owner enters it
		return fmt.Errorf("make private folder: %w", err)
	}
	if account == nil {
		return nil
	}
	if err := account.chown(dir); err != nil {
		return fmt.Errorf("give %s to %s: %w", dir, account.Name, err)
	}
	for step := filepath.Dir(dir); ; step = filepath.Dir(step) {
		if info, err := os.Stat(step); err == nil && info.Mode().Perm()&0o001 == 0 {
			return fmt.Errorf("%s may not pass through %s to its home %s: let others pass (chmod o+x %s), or name another data directory",
				account.Name, step, dir, step)
		}
		if step == filepath.Dir(step) {
			return nil
		}
	}
}

// makeFolder makes a folder with this mode. An existing folder keeps its own.
func makeFolder(dir string, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(dir), mode); err != nil {
		return fmt.Errorf("make private folder: %w", err)
	}
	err := os.Mkdir(dir, mode)
	if err == nil {
		err = os.Chmod(dir, mode) // despite the umask
	} else if os.IsExist(err) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("make private folder: %w", err)
	}
	return nil
}

// chown makes the account the owner of a folder and all files in it, unless it owns the folder.
func (a *Account) chown(dir string) error {
	if owner, ok := fileOwner(dir); ok && owner == a.UID {
		return nil
	}
	root, err := os.OpenRoot(dir) // links in it cannot lead out of it
	if err != nil {
		return err
	}
	defer root.Close()
	err = fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == "." {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok && !info.IsDir() && stat.Nlink > 1 {
			return nil // it may be a file outside, too
		}
		return root.Lchown(path, a.UID, a.GID)
	})
	if err != nil {
		return err
	}
	return os.Lchown(dir, a.UID, a.GID) // last: it marks all files as done
}

func fileOwner(path string) (int, bool) {
	info, err := os.Lstat(path)
	if err != nil {
		return 0, false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(stat.Uid), true
}
