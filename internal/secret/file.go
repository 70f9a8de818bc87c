package secret

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// forbidden are the permissions a key file may not give: anything to
// strangers, writing to the group.
const forbidden fs.FileMode = 0o027

func openFile(path string) (*Box, error) {
	text, err := readKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := createKey(path); err != nil {
			return nil, err
		}
		text, err = readKey(path)
	}
	if err != nil {
		return nil, fmt.Errorf("open secret key: %w", err)
	}
	return parse(text, "file "+path)
}

func readKey(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); mode&forbidden != 0 {
		return nil, fmt.Errorf("%s has permissions %04o: others may not read it; chmod 600 it", path, mode)
	}
	return os.ReadFile(path)
}

// createKey makes the file complete or not at all. Of several processes that
// do so at once one succeeds, and all read the same key afterwards.
func createKey(path string) error {
	text, err := generate()
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
	if err := os.Link(name, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make secret key %s: %w", path, err)
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
