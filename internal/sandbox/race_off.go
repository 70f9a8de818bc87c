//go:build !race

package sandbox

func raceEnvironment() []string { return nil }
