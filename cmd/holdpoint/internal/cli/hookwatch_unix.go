//go:build unix

package cli

import (
	"context"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// waitForReader waits until the process that reads the output ends, and reports whether it did. It watches the pipe or socket, so shells
// between the host and this command do not matter. It returns false when ctx ends, and for an output that is a file.
func waitForReader(ctx context.Context, output io.Writer) bool {
	file, ok := output.(*os.File)
	if !ok {
		return false
	}
	const pollTime = 500                         // ms
	fds := []unix.PollFd{{Fd: int32(file.Fd())}} //nolint:gosec // G115: descriptors are small
	for ctx.Err() == nil {
		n, err := unix.Poll(fds, pollTime)
		switch {
		case err != nil && !errors.Is(err, unix.EINTR):
			return false
		case n > 0:
			return fds[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
		}
	}
	return false
}
