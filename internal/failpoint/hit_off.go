//go:build !failpoint && !race

package failpoint

// Hit does nothing in this build.
func Hit(string) {}
