//go:build unix

package guard

import (
	"io/fs"
	"syscall"
)

// ownerOf returns the user and the group that own a file.
func ownerOf(info fs.FileInfo) (user, group int) {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid), int(stat.Gid)
	}
	return -1, -1
}
