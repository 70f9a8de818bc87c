package sandbox

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
)

// The user ids of programs' own accounts. They fit into the 65,536 that a container has, and lie between those that
// distributions give to people and those that systemd gives to services.
const (
	firstUID = 47_000
	lastUID  = 56_999
)

// OwnAccount returns the account that belongs to name alone. Nobody has to add it to the machine: it is a number, which
// is derived from name, and kept in dir, where no two names have the same.
func OwnAccount(dir, name string) (*Account, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("choose account: %w", err)
	}
	sum := sha256.Sum256([]byte(name))
	start := int(binary.BigEndian.Uint32(sum[:]) % (lastUID - firstUID + 1))
	for i := range lastUID - firstUID + 1 {
		uid := firstUID + (start+i)%(lastUID-firstUID+1)
		id := strconv.Itoa(uid)
		if _, err := user.LookupId(id); err == nil {
			continue // somebody's
		}
		mine, err := claim(filepath.Join(dir, id), name)
		if err != nil {
			return nil, fmt.Errorf("choose account: %w", err)
		}
		if mine {
			return &Account{Name: "user " + id, UID: uid, GID: uid}, nil
		}
	}
	return nil, fmt.Errorf("choose account: none is free between %d and %d, see %s", firstUID, lastUID, dir)
}

// claim writes name into a file that nobody made before, or reads whose it is.
func claim(path, name string) (mine bool, err error) {
	// A file that is written aside and then linked is never seen half-written.
	aside, err := os.CreateTemp(filepath.Dir(path), ".claim-*")
	if err != nil {
		return false, err
	}
	defer os.Remove(aside.Name())
	_, err = aside.WriteString(name)
	if err = errors.Join(err, aside.Close()); err != nil {
		return false, err
	}
	if err := os.Link(aside.Name(), path); err == nil || !errors.Is(err, fs.ErrExist) {
		return err == nil, err
	}
	text, err := os.ReadFile(path)
	return string(text) == name, err
}

// NamedAccount is an account of the machine. It is not root's, and no one's who owns a file of keep.
func NamedAccount(name string, keep []string) (*Account, error) {
	found, err := user.Lookup(name)
	if err != nil {
		return nil, fmt.Errorf("find account %s: %w", name, err)
	}
	uid, errUID := strconv.Atoi(found.Uid)
	gid, errGID := strconv.Atoi(found.Gid)
	if err := errors.Join(errUID, errGID); err != nil {
		return nil, fmt.Errorf("find account %s: %w", name, err)
	}
	if uid == 0 {
		return nil, fmt.Errorf("account %s is root: name another", name)
	}
	for _, path := range keep {
		if owner, ok := ownerOf(path); ok && owner == uid {
			return nil, fmt.Errorf("account %s owns %s of the server: name another", name, path)
		}
	}
	return &Account{Name: name, UID: uid, GID: gid}, nil
}
