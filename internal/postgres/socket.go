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

// maxSocketPath is what the system's sockaddr_un holds, without the final zero.
func maxSocketPath() int {
	if runtime.GOOS == "linux" {
		return 107
	}
	return 103
}

// chooseSocketDir returns where the cluster in dir has its socket: beside it, or, if that
// path were too long for a socket, or had a comma, which clients take for the end of a
// host, in a directory for temporary files under a name that every process derives alike.
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
	return "", fmt.Errorf("no directory for the socket: the path of %s does not do for one (%d bytes), and there is no /tmp; "+
		"name a data directory with a shorter path", dir, maxSocketPath())
}

// makeSocketDir makes the directory, which only the server's account may enter.
func (c *cluster) makeSocketDir() error {
	return privateDir(c.socketDir, c.account)
}

// removeSocketDir takes away what makeSocketDir made outside the data directory.
func (c *cluster) removeSocketDir() {
	if strings.HasPrefix(c.socketDir, c.dir+string(filepath.Separator)) {
		return
	}
	if err := os.Remove(c.socketDir); err != nil && !errors.Is(err, os.ErrNotExist) {
		c.log.Warn("embedded cluster: remove socket directory", "dir", c.socketDir, "error", err)
	}
}
