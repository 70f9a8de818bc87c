// Package hosts_test drives real coding agents, with small fakes of their models' APIs, through holdpoint hook: a tool must not run unless
// Holdpoint allowed it, whatever happens to the hook. Its tests have the build tag hosts; task hosts installs the agents and runs them.
package hosts_test
