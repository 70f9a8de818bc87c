package guard

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/aymanbagabas/go-udiff"
)

// Edit is a change of one file. The file is written whole or not at all.
type Edit struct {
	Path string
	// Old is the text that the edit was made from. Nil: there is no file.
	Old []byte
	// New is the text to write. Nil: the file is removed.
	New []byte
	// Mode is the mode of a new file.
	Mode fs.FileMode
	// Owner is the user id to whom a new file belongs; negative: the one who writes it.
	Owner int
	// Secret says that the text is not shown.
	Secret bool
}

// Changes reports whether the edit changes anything.
func (e *Edit) Changes() bool { return (e.Old == nil) != (e.New == nil) || !bytes.Equal(e.Old, e.New) }

// Diff shows the edit in the unified format.
func (e *Edit) Diff() string {
	from, to := "a"+e.Path, "b"+e.Path
	if e.Old == nil {
		from = "/dev/null"
	}
	if e.New == nil {
		to = "/dev/null"
	}
	if e.Secret {
		return fmt.Sprintf("--- %s\n+++ %s\n(a key, mode %04o; not shown)\n", from, to, e.Mode)
	}
	return udiff.Unified(from, to, string(e.Old), string(e.New))
}

// maxFile is the number of bytes of the largest file that is read. Settings are far smaller.
const maxFile = 1 << 20

// readFile reads a file. A missing one is nil. Root's watcher reads files of users, who may put anything in their place: only a regular file is
// read, and only up to maxFile.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	notRegular := fmt.Errorf("%s: must be a regular file", path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular(): // opening some devices has an effect
		return nil, notRegular
	}
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe may have taken its place, and must not block
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info, err = file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, cmp.Or(err, notRegular)
	}
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s: must have at most %d bytes", path, maxFile)
	}
	return text, nil
}

// Write makes the edit: into a new file beside the old one, which then takes its place. Mode and owner stay as they were. A link stays a link;
// the file that it names is replaced. If the file changed since it was read, nothing is written.
func (e *Edit) Write() error {
	if !e.Changes() {
		return nil
	}
	target := e.Path
	if linked, err := filepath.EvalSymlinks(target); err == nil {
		target = linked
	}
	present, err := readFile(target)
	if err != nil {
		return fmt.Errorf("read %s: %w", target, err)
	}
	if (present == nil) != (e.Old == nil) || !bytes.Equal(present, e.Old) {
		return fmt.Errorf("%s: changed while it was being edited: try again", e.Path)
	}
	if e.New == nil {
		if err := os.Remove(target); err != nil {
			return fmt.Errorf("remove %s: %w", e.Path, err)
		}
		return nil
	}
	folderMode := fs.FileMode(0o755)
	if e.Secret {
		folderMode = 0o711 // owners find their own files by name
	}
	if err := os.MkdirAll(filepath.Dir(target), folderMode); err != nil {
		return fmt.Errorf("make the folder of %s: %w", e.Path, err)
	}
	mode, owner, group := e.Mode, e.Owner, -1
	if e.Old != nil {
		info, err := os.Stat(target)
		if err != nil {
			return fmt.Errorf("read %s: %w", e.Path, err)
		}
		mode = info.Mode().Perm()
		owner, group = ownerOf(info)
		if e.Secret {
			mode, owner = e.Mode, e.Owner
		}
	}
	return replaceFile(target, e.New, mode, owner, group)
}

func replaceFile(target string, text []byte, mode fs.FileMode, owner, group int) (err error) {
	file, err := os.CreateTemp(filepath.Dir(target), ".holdpoint-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", target, err)
	}
	defer func() {
		if err != nil {
			_ = file.Close()
			_ = os.Remove(file.Name())
			err = fmt.Errorf("write %s: %w", target, err)
		}
	}()
	if _, err = file.Write(text); err != nil {
		return err
	}
	if os.Geteuid() == 0 && (owner >= 0 || group >= 0) {
		if err = file.Chown(owner, group); err != nil {
			return err
		}
	}
	if err = file.Chmod(mode); err != nil {
		return err
	}
	if err = file.Sync(); err != nil {
		return err
	}
	if err = file.Close(); err != nil {
		return err
	}
	if err = os.Rename(file.Name(), target); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(target))
}

// syncFolder makes a rename durable, where folders can be synced.
func syncFolder(folder string) error {
	dir, err := os.Open(folder)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := dir.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) && !strings.Contains(err.Error(), "invalid argument") {
		return err
	}
	return nil
}
