// Package sandbox owns the processes of untrusted programs: it starts a program in a sandbox, watches the tree of its
// processes, and ends all of them. It does not know the purpose of a program.
//
// Two processes come before a program. The keeper stays outside the sandbox: it adopts the orphans of the program, measures
// the tree's resources, and ends the tree when the program, or this process, has ended. The other process enters the sandbox
// and then becomes the program. Both are this executable, started under another name: see [init].
//
// In the sandbox the program has (on Linux):
//
//   - an unprivileged account, if this process is root; no capabilities, and no way to gain any
//   - the system's folders to read, its own folders to write, and the paths in its [Spec], by Landlock
//   - no way to signal, trace or inspect processes outside, nor to reach their abstract sockets, by Landlock
//   - no harmful system call that Landlock does not check, by seccomp: see filter_linux.go
//   - limits on processes, memory, files and their size
//
// It may use the network.
package sandbox
