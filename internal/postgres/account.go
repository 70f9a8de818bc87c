package postgres

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"syscall"
)

// account is the account that the server programs run as.
type account struct {
	name     string
	uid, gid uint32
	drop     bool // this process is root and has to switch to it
}

// clusterAccount chooses the account of the cluster in pgData: the process's own, or for root the owner of an existing
// cluster, else the account postgres.
func clusterAccount(pgData string) (account, error) {
	uid := os.Geteuid()
	if uid != 0 {
		return account{name: "user " + strconv.Itoa(uid), uid: uint32(uid), gid: uint32(os.Getegid())}, nil //nolint:gosec // G115: ids of a process fit
	}
	info, err := os.Stat(pgData)
	switch {
	case err == nil:
		owner, _ := fileOwner(info)
		if owner == 0 {
			return account{}, fmt.Errorf("open embedded cluster: %s belongs to root, and PostgreSQL refuses to run as root", pgData)
		}
		return lookUpAccount(user.LookupId, strconv.FormatUint(uint64(owner), 10))
	case !errors.Is(err, fs.ErrNotExist):
		return account{}, fmt.Errorf("open embedded cluster: %w", err)
	}
	// The account nobody is no alternative: other programs without an account share it.
	acct, err := lookUpAccount(user.Lookup, "postgres")
	if err != nil || acct.uid == 0 {
		return account{}, errors.New("open embedded cluster: PostgreSQL refuses to run as root, " +
			"and this machine has no account postgres to run it as; add one (useradd --system postgres)")
	}
	return acct, nil
}

func lookUpAccount(look func(string) (*user.User, error), key string) (account, error) {
	found, err := look(key)
	if err != nil {
		return account{}, fmt.Errorf("find the account %s for PostgreSQL: %w", key, err)
	}
	uid, errUID := strconv.ParseUint(found.Uid, 10, 32)
	gid, errGID := strconv.ParseUint(found.Gid, 10, 32)
	if err := errors.Join(errUID, errGID); err != nil {
		return account{}, fmt.Errorf("find the account %s for PostgreSQL: %w", key, err)
	}
	return account{name: found.Username, uid: uint32(uid), gid: uint32(gid), drop: true}, nil
}

// chownFile makes the account the owner of a file.
func (a account) chownFile(path string) error {
	if !a.drop {
		return nil
	}
	if err := os.Lchown(path, int(a.uid), int(a.gid)); err != nil {
		return fmt.Errorf("give %s to %s: %w", path, a.name, err)
	}
	return nil
}

// prepareCommand lets cmd run as the account, in a session of its own, so that a terminal's Ctrl-C does not reach it, and
// without this process's environment.
func (a account) prepareCommand(cmd *exec.Cmd) *exec.Cmd {
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "LANG=C"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if a.drop {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
	return cmd
}

// commandError adds the output of a program to its error.
func commandError(action string, err error, output string) error {
	output = strings.TrimSpace(output)
	if output == "" {
		return fmt.Errorf("%s: %w", action, err)
	}
	return fmt.Errorf("%s: %w: %s", action, err, output)
}
