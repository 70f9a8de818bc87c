package secret

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// The permissions that a key file must not have. Others must not read it, and only its owner may write it. An encrypted keyset
// may be readable.
const (
	forbiddenModes          fs.FileMode = 0o027
	forbiddenModesEncrypted fs.FileMode = 0o022
)

func openFile(ctx context.Context, path string, kms KMS) (*Box, error) {
	text, err := readKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := CreateFile(ctx, path, kms); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		text, err = readKey(path)
	}
	if err != nil {
		return nil, fmt.Errorf("open secret key: %w", err)
	}
	return parseKeyset(ctx, text, fileSource(path), kms)
}

func fileSource(path string) string { return "file " + path }

func readKey(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	denied, advice := forbiddenModes, "others may not read it; chmod 600 it"
	if isEncrypted(text) {
		denied, advice = forbiddenModesEncrypted, "others may not write it; chmod 644 it"
	}
	if mode := info.Mode().Perm(); mode&denied != 0 {
		return nil, fmt.Errorf("%s has permissions %04o: %s", path, mode, advice)
	}
	return text, nil
}

// CreateFile makes a file with a keyset of one new key, atomically. If several processes do so at once, one succeeds, and the
// others get fs.ErrExist and read the same key.
func CreateFile(ctx context.Context, path string, kms KMS) error {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("make secret key %s: %w", path, fs.ErrExist)
	}
	keys, err := newKeys()
	if err != nil {
		return err
	}
	text, err := keys.encodeKeys(ctx, kms)
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make secret key %s: %w", path, err)
	}
	name, err := writeTemporary(dir, text)
	if name != "" {
		defer os.Remove(name) // the link below keeps the file
	}
	if err != nil {
		return fmt.Errorf("make secret key %s: %w", path, err)
	}
	if err := os.Link(name, path); err != nil {
		return fmt.Errorf("make secret key %s: %w", path, err)
	}
	return syncDir(dir)
}

// ChangeFile changes the keyset in a file. Readers see the old or the new keyset, and changes by several processes are made
// one after the other. Owner and permissions stay.
func ChangeFile(ctx context.Context, path string, c Change) (*Keys, error) {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, fmt.Errorf("change secret key: %w", err)
	}
	unlock, err := lockDir(ctx, filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("change secret key %s: %w", path, err)
	}
	defer unlock()
	text, err := readKey(path)
	if err != nil {
		return nil, fmt.Errorf("change secret key: %w", err)
	}
	keys, text, err := c.applyChange(ctx, text, fileSource(path))
	if err != nil {
		return nil, err
	}
	if err := replaceFile(path, text); err != nil {
		return nil, fmt.Errorf("change secret key %s: %w", path, err)
	}
	return keys, nil
}

func replaceFile(path string, text []byte) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	name, err := writeTemporary(dir, text)
	if name != "" {
		defer os.Remove(name) // has no effect after the rename
	}
	if err != nil {
		return err
	}
	if err := keepOwner(name, info); err != nil {
		return err
	}
	if err := os.Chmod(name, info.Mode().Perm()); err != nil {
		return err
	}
	if err := os.Rename(name, path); err != nil {
		return err
	}
	return syncDir(dir)
}

// writeTemporary writes a new file that only its owner can read (os.CreateTemp), and syncs it.
func writeTemporary(dir string, text []byte) (name string, err error) {
	file, err := os.CreateTemp(dir, ".keyset-*")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if _, err := file.Write(text); err != nil {
		return file.Name(), err
	}
	return file.Name(), file.Sync()
}

func syncDir(dir string) error {
	handle, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return errors.Join(handle.Sync(), handle.Close())
}

// lockPoll is how often a lock that another process holds is tried again. A blocking flock could not be cancelled.
const lockPoll = 10 * time.Millisecond

// lockDir locks the directory of a key file against changes by other processes. A lock of the file would not do, since a
// change replaces the file.
func lockDir(ctx context.Context, dir string) (unlock func(), err error) {
	file, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	ticker := time.NewTicker(lockPoll)
	defer ticker.Stop()
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return func() { file.Close() }, nil // closing releases the lock
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), file.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("wait for the lock of %s: %w", dir, context.Cause(ctx)), file.Close())
		case <-ticker.C:
		}
	}
}

// keepOwner gives a file the owner of the file that it replaces, so that the server can read it.
func keepOwner(name string, replaced fs.FileInfo) error {
	mine, err := os.Stat(name)
	if err != nil {
		return err
	}
	have, ok := mine.Sys().(*syscall.Stat_t)
	want, known := replaced.Sys().(*syscall.Stat_t)
	if !ok || !known || have.Uid == want.Uid && have.Gid == want.Gid {
		return nil
	}
	return os.Chown(name, int(want.Uid), int(want.Gid))
}
