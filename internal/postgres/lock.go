package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/holdpoint/holdpoint/internal/pause"
)

// lockPoll is the interval of attempts to take a lock. Waiting in the kernel could not be cancelled.
const lockPoll = 10 * time.Millisecond

// openLock opens a lock file. The kernel releases its locks when the process ends. Go closes the file in child processes.
func openLock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	return file, nil
}

// tryLock takes the lock, shared (syscall.LOCK_SH) or exclusive (syscall.LOCK_EX), if it is free.
func tryLock(file *os.File, how int) (bool, error) {
	for {
		err := syscall.Flock(int(file.Fd()), how|syscall.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		default:
			return false, fmt.Errorf("lock %s: %w", file.Name(), err)
		}
	}
}

// waitLock takes the lock as soon as it is free.
func waitLock(ctx context.Context, file *os.File, how int) error {
	for {
		if locked, err := tryLock(file, how); err != nil || locked {
			return err
		}
		if err := pause.For(ctx, lockPoll); err != nil {
			return fmt.Errorf("wait for the lock %s: %w", file.Name(), err)
		}
	}
}
