//go:build race

package sandbox

// raceEnvironment ends a program with the race detector at once. By default the detector sleeps for a second first.
func raceEnvironment() []string { return []string{"GORACE=atexit_sleep_ms=0"} }
