package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/landlock-lsm/go-landlock/landlock"
	llsyscall "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// The oldest usable versions of Landlock. A program with an account of its own cannot reach other processes anyway. Without
// one, Landlock has to prevent it, which it can since version 6.
const (
	oldestWithAccount = 3
	oldestWithout     = 6
)

// Unsupported returns why this machine has no sandbox, or "" if it has one.
func Unsupported() string {
	if auditArch == 0 {
		return "on this processor architecture programs have no sandbox: only on amd64 and arm64"
	}
	abi, err := llsyscall.LandlockGetABIVersion()
	if err != nil {
		return "this kernel has no sandbox (Landlock): use Linux 6.12 or newer, and add landlock to the kernel's parameter lsm="
	}
	if os.Geteuid() != 0 {
		if abi < oldestWithout {
			return fmt.Sprintf("this kernel's sandbox (Landlock) has version %d: version %d is needed (Linux 6.12), or let the server run as root", abi, oldestWithout)
		}
		return ""
	}
	if abi < oldestWithAccount {
		return fmt.Sprintf("this kernel's sandbox (Landlock) has version %d: version %d is needed (Linux 6.2)", abi, oldestWithAccount)
	}
	for _, c := range []struct {
		number int
		name   string
	}{{unix.CAP_SETUID, "CAP_SETUID"}, {unix.CAP_SETGID, "CAP_SETGID"}, {unix.CAP_CHOWN, "CAP_CHOWN"}} {
		if !hasCapability(c.number) {
			return "the server runs as root without " + c.name + ", and cannot give programs an account of their own: run it as another user"
		}
	}
	return ""
}

func hasCapability(number int) bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&header, &data[0]) == nil && data[number/32].Effective&(1<<(number%32)) != 0
}

// confineProcess enters the sandbox. It reports the paths that the program cannot use, and why.
func confineProcess(spec *Spec) (report, error) {
	unix.Umask(0o077)
	// If memory runs out, the kernel kills this process first. An error is ignored: the kernel then kills another one.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	if err := os.Chdir(spec.Dir); err != nil {
		return report{}, err
	}
	if spec.Open {
		return report{}, setLimits(spec)
	}
	opened, err := openDeclared(spec)
	if err != nil {
		return report{}, err
	}
	granted, rules := makeRules(spec, opened)
	// Files, signals and abstract sockets are restricted as far as the kernel can; Unsupported requires the necessary parts.
	// The network stays open.
	config := landlock.V9
	config.HandledAccessNet = 0
	if err := config.BestEffort().Restrict(rules...); err != nil {
		return report{}, fmt.Errorf("enter the sandbox: %w", err)
	}
	for _, o := range opened {
		_ = unix.Close(o.fd)
	}
	if err := setLimits(spec); err != nil {
		return report{}, err
	}
	if err := dropPrivileges(spec.Account); err != nil {
		return report{}, err
	}
	entered := report{Notes: explainRefusals(spec, opened, granted)}
	own := spec.Account == nil
	abi, err := llsyscall.LandlockGetABIVersion()
	if err != nil {
		return report{}, fmt.Errorf("enter the sandbox: %w", err)
	}
	listener, err := setFilter(own, abi)
	if err != nil || !own {
		return entered, err
	}
	entered.Listens = true
	for _, path := range spec.Own {
		entered.Folders = append(entered.Folders, realPath(path))
	}
	for _, d := range opened {
		if d.write {
			entered.Folders = append(entered.Folders, d.real)
		}
	}
	return entered, sendListener(listenerSocket, listener)
}

// declared is a path that the spec names.
type declared struct {
	path  string
	real  string
	fd    int // of the file that was checked
	dir   bool
	write bool
}

// openDeclared opens the paths that the spec names, and checks that the server allows the files behind them.
func openDeclared(spec *Spec) ([]declared, error) {
	var opened []declared
	for i, path := range slices.Concat(spec.Read, spec.Write) {
		d := declared{path: path, write: i >= len(spec.Read)}
		var err error
		if d.fd, err = unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0); err != nil {
			return nil, fmt.Errorf("open declared path %s: %w", path, err)
		}
		if d.real, err = os.Readlink("/proc/self/fd/" + strconv.Itoa(d.fd)); err != nil {
			return nil, fmt.Errorf("open declared path %s: %w", path, err)
		}
		var info unix.Stat_t
		if err := unix.Fstat(d.fd, &info); err != nil {
			return nil, fmt.Errorf("open declared path %s: %w", path, err)
		}
		d.dir = info.Mode&unix.S_IFMT == unix.S_IFDIR
		if !d.dir && info.Mode&unix.S_IFMT != unix.S_IFREG {
			return nil, fmt.Errorf("open declared path %s: it is neither a folder nor a regular file", path)
		}
		inside := func(root string) bool { return isWithin(realPath(root), d.real) }
		kept := func(path string) bool { return isWithin(realPath(path), d.real) || isWithin(d.real, realPath(path)) }
		if !slices.ContainsFunc(spec.Roots, inside) || slices.ContainsFunc(spec.Keep, kept) {
			return nil, fmt.Errorf("open declared path %s: it is %s, which this server does not let skills use", path, d.real)
		}
		opened = append(opened, d)
	}
	return opened, nil
}

// Every program may read these folders of the system:
var systemFolders = []string{ //nolint:gochecknoglobals // a table
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/gnu/store", "/proc/sys",
	"/sys/fs/cgroup", "/sys/devices/system/cpu", "/sys/devices/system/node",
	"/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/etc/alternatives", "/etc/ld.so.conf.d", "/etc/fonts", "/etc/crypto-policies",
}

// these files:
var systemFiles = []string{ //nolint:gochecknoglobals // a table
	"/etc/ca-certificates.conf", "/etc/group", "/etc/host.conf", "/etc/hostname", "/etc/hosts", "/etc/gai.conf", "/etc/inputrc",
	"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/locale.alias", "/etc/localtime", "/etc/lsb-release", "/etc/magic", "/etc/mime.types",
	"/etc/nsswitch.conf", "/etc/os-release", "/etc/passwd", "/etc/protocols", "/etc/resolv.conf", "/etc/services", "/etc/timezone",
	"/proc/cpuinfo", "/proc/filesystems", "/proc/loadavg", "/proc/meminfo", "/proc/stat", "/proc/uptime", "/proc/version",
}

// and may read and write these devices:
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"} //nolint:gochecknoglobals // a table

// makeRules returns the rules for Landlock, and the folders and files that they grant.
func makeRules(spec *Spec, opened []declared) (granted []string, rules []landlock.Rule) {
	var hidden []string
	for _, path := range slices.Concat(spec.Hide, spec.Keep) {
		hidden = append(hidden, realPath(path))
	}
	read := func(path string) {
		granted = append(granted, path)
		info, err := os.Stat(path)
		switch {
		case err != nil: // it was removed
		case info.IsDir():
			rules = append(rules, landlock.RODirs(path).IgnoreIfMissing())
		default:
			rules = append(rules, landlock.ROFiles(path).IgnoreIfMissing())
		}
	}
	for _, path := range slices.Concat(systemFolders, systemFiles, []string{spec.Program}) {
		for _, part := range visibleParts(realPath(path), hidden) {
			read(part)
		}
	}
	rules = append(rules, landlock.RODirs("/proc/self"), landlock.RWFiles(devices...).IgnoreIfMissing())
	for _, path := range spec.Own {
		granted = append(granted, realPath(path))
		rules = append(rules, landlock.RWDirs(path).WithRefer())
	}
	for _, d := range opened {
		granted = append(granted, d.real)
		path := "/proc/self/fd/" + strconv.Itoa(d.fd)
		switch {
		case d.dir && d.write:
			rules = append(rules, landlock.RWDirs(path).WithRefer())
		case d.dir:
			rules = append(rules, landlock.RODirs(path))
		case d.write:
			rules = append(rules, landlock.RWFiles(path))
		default:
			rules = append(rules, landlock.ROFiles(path))
		}
	}
	return granted, rules
}

// visibleParts returns path, or, if it contains hidden paths, the parts of it that do not.
func visibleParts(path string, hidden []string) []string {
	if slices.ContainsFunc(hidden, func(h string) bool { return isWithin(h, path) }) {
		return nil
	}
	if !slices.ContainsFunc(hidden, func(h string) bool { return isWithin(path, h) }) {
		return []string{path}
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil
	}
	var parts []string
	for _, entry := range entries {
		if entry.Type()&os.ModeSymlink == 0 { // the target of a link is granted at its own place
			parts = append(parts, visibleParts(filepath.Join(path, entry.Name()), hidden)...)
		}
	}
	return parts
}

// setLimits sets the kernel's limits for each process and each account.
func setLimits(spec *Spec) error {
	l := spec.Limits
	processes := uint64(l.Processes + moreProcesses) //nolint:gosec // G115: of our own settings, or 512
	if spec.Account == nil {
		processes += countTasks(os.Getuid()) + laterProcesses // other processes of the account count too
	}
	for _, r := range []struct {
		resource int
		name     string
		most     uint64
	}{
		{unix.RLIMIT_NPROC, "processes", processes},
		{unix.RLIMIT_DATA, "memory", 2 * uint64(l.Memory)},   //nolint:gosec // G115: as above. Runtimes reserve more than they use; the keeper measures the use
		{unix.RLIMIT_FSIZE, "file size", uint64(l.FileSize)}, //nolint:gosec // G115: as above
		{unix.RLIMIT_NOFILE, "open files", uint64(l.Files)},  //nolint:gosec // G115: as above
		{unix.RLIMIT_CORE, "core", 0},
	} {
		var now syscall.Rlimit
		if err := syscall.Getrlimit(r.resource, &now); err != nil {
			return fmt.Errorf("limit %s: %w", r.name, err)
		}
		most := min(r.most, now.Max)
		if err := syscall.Setrlimit(r.resource, &syscall.Rlimit{Cur: most, Max: most}); err != nil {
			return fmt.Errorf("limit %s: %w", r.name, err)
		}
	}
	return nil
}

// laterProcesses leaves room for other processes of the account that start after a program.
const laterProcesses = 1024

// countTasks counts the processes and threads of an account.
func countTasks(uid int) uint64 {
	names, err := procNames()
	if err != nil {
		return 0
	}
	count := uint64(0)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		var info unix.Stat_t
		if unix.Stat("/proc/"+name+"/task", &info) != nil || int(info.Uid) != uid {
			continue
		}
		if p, alive := readProcess(pid); alive {
			count += uint64(p.threads) //nolint:gosec // G115: the kernel counted them
		}
	}
	return count
}

// dropPrivileges switches to the account, without capabilities and without a way to gain any.
func dropPrivileges(account *Account) error {
	if account != nil {
		for number := range 64 {
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(number), 0, 0, 0); err != nil {
				break // past the last one, or not allowed: then there are no new privileges either
			}
		}
		if err := syscall.Setgroups([]int{}); err != nil {
			return fmt.Errorf("become %s: %w", account.Name, err)
		}
		if err := syscall.Setgid(account.GID); err != nil {
			return fmt.Errorf("become %s: %w", account.Name, err)
		}
		if err := syscall.Setuid(account.UID); err != nil {
			return fmt.Errorf("become %s: %w", account.Name, err)
		}
		if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0, 0, 0); err != nil { // the change of the account cleared it
			return fmt.Errorf("end with the keeper: %w", err)
		}
	}
	_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) // a kernel without ambient capabilities has none to clear
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("refuse new privileges: %w", err)
	}
	return nil
}

// explainRefusals says which paths the program cannot use: declared ones, and those in its command.
func explainRefusals(spec *Spec, opened []declared, granted []string) []string {
	account := "the server's account"
	if spec.Account != nil {
		account = spec.Account.Name
	}
	var notes []string
	for _, d := range opened {
		mode, action := uint32(unix.R_OK), "reading"
		if d.write {
			mode, action = unix.R_OK|unix.W_OK, "writing"
		}
		if d.dir {
			mode |= unix.X_OK
		}
		if errors.Is(unix.Access(d.path, mode), unix.EACCES) {
			notes = append(notes, fmt.Sprintf("file permissions, not the sandbox, refuse %s of %s to %s", action, d.path, account))
		}
	}
	for _, word := range append([]string{spec.Program}, spec.Args[1:]...) {
		if !filepath.IsAbs(word) || slices.ContainsFunc(opened, func(d declared) bool { return isWithin(d.path, word) }) {
			continue
		}
		switch err := unix.Access(word, unix.R_OK); {
		case errors.Is(err, unix.EACCES):
			notes = append(notes, fmt.Sprintf("file permissions, not the sandbox, refuse %s to %s", word, account))
		case err == nil && !slices.ContainsFunc(granted, func(g string) bool { return isWithin(g, realPath(word)) }):
			notes = append(notes, fmt.Sprintf("the sandbox refuses %s: declare it in paths.read or paths.write", word))
		}
	}
	slices.Sort(notes)
	return slices.Compact(notes)
}

// realPath resolves symbolic links as far as it can.
func realPath(path string) string {
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		return resolved
	}
	return filepath.Clean(path)
}

// isWithin reports whether path is dir or lies below it.
func isWithin(dir, path string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}
