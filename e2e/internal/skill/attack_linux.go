package skill

import (
	"context"
	"errors"
	"strconv"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"
)

// runAttack does harm to a process, or connects to a database. Nil: it succeeded.
func runAttack(ctx context.Context, act, target string) error {
	if act == "connect" {
		conn, err := pgx.Connect(ctx, target)
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	}
	pid, err := strconv.Atoi(target)
	if err != nil {
		return err
	}
	switch act {
	case "trace":
		if err := unix.PtraceAttach(pid); err != nil {
			return err
		}
		return unix.PtraceDetach(pid)
	case "take a file":
		process, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			return err
		}
		_, err = unix.PidfdGetfd(process, 1, 0)
		return err
	case "limit":
		var limit unix.Rlimit
		return errors.Join(unix.Prlimit(0, unix.RLIMIT_CORE, nil, &limit), unix.Prlimit(pid, unix.RLIMIT_CORE, &limit, nil))
	}
	return errors.New("no such attack")
}
