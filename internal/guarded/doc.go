// Package guarded owns the guarded hosts (table guarded_hosts): coding agents on machines whose built-in tools ask Holdpoint, because `holdpoint
// guard` put a hook into their settings. Machines report whether each guard still holds. The package alerts people when a guard was removed
// or altered, when its reports end, and when a call ran that Holdpoint did not release. It does not own calls, or who is notified.
//
// Reports come with the key of an agent, which the coding agent may be able to read. So each also has a secret of the machine's watcher. A
// guard whose reports are forged under another id is silent under its own.
package guarded
