package secret

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// lockPoll is how often a lock that another process holds is tried again. The
// kernel's own waiting cannot be cancelled.
const lockPoll = 10 * time.Millisecond

// lockDir keeps other processes from changing a keyset in the directory. The key file
// itself is replaced by a change, so a lock of it would hold off nobody.
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
			return func() { file.Close() }, nil // which gives the lock back
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

// keepOwner gives a file the owner of the one that it replaces. A key file that the
// server can no longer read is of no use.
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
