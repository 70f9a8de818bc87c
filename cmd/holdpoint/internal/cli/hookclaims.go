package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/holdpoint/holdpoint/approval/condition"
	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/guard"
	"github.com/holdpoint/holdpoint/internal/client"
	"github.com/holdpoint/holdpoint/runtime/host"
)

// maxHashedFile is the number of bytes of the largest file whose digest is worth the time.
const maxHashedFile = 64 << 20

// claimContext returns what the hook tells the server about the machine: the server cannot see it, and shows it as the hook's word.
func (h *hookCaller) claimContext() client.GateContext {
	e := &h.event
	return client.GateContext{
		Host: h.hook.Name, SessionID: e.SessionID, Cwd: e.Cwd, Subagent: e.Subagent, Version: e.Version, Guard: h.guard,
		Paths: resolvePaths(e.Cwd, h.hook.NamePaths(e)), File: readChanged(e.Cwd, h.hook.NameChanged(e)),
	}
}

// resolvePaths follows the links of paths. Nil: one of them is not known for sure.
func resolvePaths(folder string, named []string) []string {
	if len(named) > condition.MaxPaths {
		return nil
	}
	var paths []string
	for _, name := range named {
		path, err := resolvePath(folder, name)
		if err != nil || len(path) > condition.MaxPath || !utf8.ValidString(path) {
			return nil
		}
		paths = append(paths, path)
	}
	return paths
}

// errPathUnknown means that a tool may read a path in another way.
var errPathUnknown = errors.New("the path must be absolute, or relative to an absolute folder, not begin with ~, and have .. only at its beginning")

// resolvePath follows the links of a path. The end of the path need not exist.
func resolvePath(folder, name string) (string, error) {
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(folder, name)
	}
	if name == "" || strings.HasPrefix(name, "~") || strings.ContainsRune(name, 0) || !filepath.IsAbs(path) || !climbsPlainly(folder, name) {
		return "", errPathUnknown
	}
	return followLinks(path)
}

// climbsPlainly reports whether all tools agree what the .. of a name mean. After a link, some tools remove the link from the text, and others
// follow it.
func climbsPlainly(folder, name string) bool {
	isNamed, climbs := false, false
	for part := range strings.SplitSeq(filepath.ToSlash(name), "/") {
		switch {
		case part == ".." && isNamed:
			return false
		case part == "..":
			climbs = true
		case part != "" && part != ".":
			isNamed = true
		}
	}
	if !climbs || filepath.IsAbs(name) {
		return true
	}
	resolved, err := followLinks(folder)
	return err == nil && resolved == filepath.Clean(folder)
}

func followLinks(path string) (string, error) {
	resolved, err := filepath.EvalSymlinks(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return resolved, err
	}
	if _, linkErr := os.Lstat(path); linkErr == nil { // a link that leads nowhere: a tool may create what it leads to
		return "", err
	}
	parent := filepath.Dir(path)
	if parent == path {
		return "", err
	}
	if resolved, err = followLinks(parent); err != nil {
		return "", err
	}
	return filepath.Join(resolved, filepath.Base(path)), nil
}

// readChanged reads the file that a call would change. Nil: there is none, or it cannot be read. The content is left out if the file's name says
// that it holds secrets, if it is large, or if it is no text.
func readChanged(folder, name string) *client.GateFile {
	if name == "" {
		return nil
	}
	path, err := resolvePath(folder, name)
	if err != nil || len(path) > condition.MaxPath || !utf8.ValidString(path) {
		return nil
	}
	claim := &client.GateFile{Path: path}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return claim
	}
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	claim.Exists, claim.Size = true, info.Size()
	if guard.HoldsSecrets(path) || guard.HoldsSecrets(name) || info.Size() > maxHashedFile {
		return claim
	}
	if err := claimContent(claim); err != nil {
		return nil
	}
	return claim
}

// claimContent adds the content of a file, or its digest.
func claimContent(claim *client.GateFile) error {
	file, err := os.Open(claim.Path)
	if err != nil {
		return err
	}
	defer file.Close()
	if claim.Size > host.MaxFileText {
		hash := sha256.New()
		if claim.Size, err = io.Copy(hash, io.LimitReader(file, maxHashedFile)); err != nil {
			return fmt.Errorf("read %s: %w", claim.Path, err)
		}
		claim.SHA256 = hex.EncodeToString(hash.Sum(nil))
		return nil
	}
	content, err := io.ReadAll(io.LimitReader(file, host.MaxFileText+1))
	if err != nil {
		return fmt.Errorf("read %s: %w", claim.Path, err)
	}
	claim.Size = int64(len(content))
	sum := sha256.Sum256(content)
	claim.SHA256 = hex.EncodeToString(sum[:])
	if text := string(content); len(text) <= host.MaxFileText && utf8.ValidString(text) && !strings.ContainsRune(text, 0) {
		claim.Text = &text
	}
	return nil
}
