package secret

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// The permissions that a key file may not give: anything to strangers, writing
// to the group. What only a KMS can decrypt may be read.
const (
	forbidden          fs.FileMode = 0o027
	forbiddenEncrypted fs.FileMode = 0o022
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
	return parse(ctx, text, fileSource(path), kms)
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
	denied, advice := forbidden, "others may not read it; chmod 600 it"
	if isEncrypted(text) {
		denied, advice = forbiddenEncrypted, "others may not write it; chmod 644 it"
	}
	if mode := info.Mode().Perm(); mode&denied != 0 {
		return nil, fmt.Errorf("%s has permissions %04o: %s", path, mode, advice)
	}
	return text, nil
}

// CreateFile makes a file with a keyset of one new key, complete or not at all.
// Of several processes that do so at once one succeeds, and all read the
// same key afterwards; to the others the error is fs.ErrExist.
func CreateFile(ctx context.Context, path string, kms KMS) error {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("make secret key %s: %w", path, fs.ErrExist)
	}
	keys, err := newKeys()
	if err != nil {
		return err
	}
	text, err := keys.encode(ctx, kms)
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make secret key %s: %w", path, err)
	}
	name, err := writeTemporary(dir, text)
	if name != "" {
		defer os.Remove(name) // a second name of the key file, or what did not become one
	}
	if err != nil {
		return fmt.Errorf("make secret key %s: %w", path, err)
	}
	if err := os.Link(name, path); err != nil {
		return fmt.Errorf("make secret key %s: %w", path, err)
	}
	return syncDir(dir)
}

// ChangeFile changes the keyset of a file. Whoever reads it meanwhile sees the old keyset
// or the new one; changes by several processes come one after the other. Owner and
// permissions stay.
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
	keys, text, err := c.apply(ctx, text, fileSource(path))
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
		defer os.Remove(name) // is gone when it became the key file
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

// writeTemporary writes a new file that only its owner reads (so does
// os.CreateTemp) and makes it durable.
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
