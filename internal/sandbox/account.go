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

// OwnAccount returns the account that belongs to name alone. The account need not exist on the machine: it is a user id
// derived from name. A file in dir reserves it for the name.
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
			continue // an account of the machine
		}
		mine, err := claimID(filepath.Join(dir, id), name)
		if err != nil {
			return nil, fmt.Errorf("choose account: %w", err)
		}
		if mine {
			return &Account{Name: "user " + id, UID: uid, GID: uid}, nil
		}
	}
	return nil, fmt.Errorf("choose account: none is free between %d and %d, see %s", firstUID, lastUID, dir)
}

// claimID reserves a user id for a name by a file. It reports whether the id belongs to the name.
func claimID(path, name string) (mine bool, err error) {
	// The file is written aside and then linked, so that no reader sees a part of it.
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

// NamedAccount returns an account of the machine. It refuses root, and the owner of a file in keep.
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
		if owner, ok := fileOwner(path); ok && owner == uid {
			return nil, fmt.Errorf("account %s owns %s of the server: name another", name, path)
		}
	}
	return &Account{Name: name, UID: uid, GID: gid}, nil
}
