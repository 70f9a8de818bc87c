// Package sandbox owns the processes of programs that strangers wrote: it starts one in a sandbox, watches the tree of its
// processes, and ends all of them. It knows nothing of what the program is for.
//
// A program has two processes before it. The keeper stands beside the sandbox: it adopts every process that the program
// leaves behind, counts what the tree uses, and ends it when the program, or this process, has ended. The other enters
// the sandbox and then becomes the program. Both are this executable, started under another name: see [init].
//
// In the sandbox the program has (on Linux):
//
//   - an unprivileged account, if this process is root; no capabilities, and no way to gain any
//   - the system's folders to read, its own folders to write, and what its [Spec] names, by Landlock
//   - no way to signal, trace or look into processes outside, nor to reach their abstract sockets, by Landlock
//   - no system call that does harm past Landlock, by seccomp: see filter_linux.go
//   - limits on processes, memory, files and their size
//
// The network stays open to it.
package sandbox
