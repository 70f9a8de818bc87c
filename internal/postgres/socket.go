package postgres

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// maxSocketPath is the length of a path in the system's sockaddr_un, without the final zero.
func maxSocketPath() int {
	if runtime.GOOS == "linux" {
		return 107
	}
	return 103
}

// chooseSocketDir returns the directory for the socket of the cluster in dir. It is below dir, unless that path is too long or
// has a comma, which ends a host for clients. Then it is a directory for temporary files, with a name derived from dir.
func chooseSocketDir(dir string) (string, error) {
	sum := sha256.Sum256([]byte(dir))
	name := "holdpoint-" + hex.EncodeToString(sum[:8])
	socket := fmt.Sprintf(".s.PGSQL.%d", socketPort)
	for _, candidate := range []string{
		filepath.Join(dir, "run"),
		filepath.Join("/tmp", name),
		filepath.Join(os.TempDir(), name),
	} {
		if len(filepath.Join(candidate, socket)) > maxSocketPath() || strings.Contains(candidate, ",") {
			continue
		}
		if _, err := os.Stat(filepath.Dir(candidate)); err == nil {
			return candidate, nil
		}
	}
	return "", fmt.Errorf("no directory for the socket: the path of %s is too long (over %d bytes) or has a comma, and there is no /tmp; "+
		"name a data directory with a shorter path", dir, maxSocketPath())
}

// removeSocketDir removes a socket directory outside the data directory.
func (c *cluster) removeSocketDir() {
	if strings.HasPrefix(c.socketDir, c.dir+string(filepath.Separator)) {
		return
	}
	if err := os.Remove(c.socketDir); err != nil && !errors.Is(err, os.ErrNotExist) {
		c.log.Warn("embedded cluster: remove socket directory", "dir", c.socketDir, "error", err)
	}
}
