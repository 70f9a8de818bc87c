package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// peersPhase is not part of a whole run: it downloads the programs that it compares with.
const peersPhase = "peers"

// measurePeers measures Holdpoint and other programs beside each other: gateways with calls that pass, agents with calls that wait.
func measurePeers(ctx context.Context, b *bench) error {
	npm := b.installNPM(ctx)
	if err := onStage(npm.measureGateways)(ctx, b); err != nil {
		return err
	}
	return onStage(npm.measureAgents, "--max-connections=20000")(ctx, b)
}

// npmPeers is the folder with the peers of npm's registry, installed from its lock.
type npmPeers struct {
	dir     string
	missing error // why they are not installed
}

// installNPM installs the peers of npm's registry in the temporary directory.
func (b *bench) installNPM(ctx context.Context) npmPeers {
	b.logf("installing peers")
	p := npmPeers{dir: filepath.Join(b.dir, "peers")}
	if p.missing = os.CopyFS(p.dir, os.DirFS(filepath.Join(b.root, "bench", "peers"))); p.missing != nil {
		return p
	}
	var version string
	if version, p.missing = runIn(ctx, p.dir, "node", "--version"); p.missing != nil {
		return p
	}
	b.report.Machine.Node = strings.TrimPrefix(version, "v")
	_, p.missing = runIn(ctx, p.dir, "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error",
		"--prefer-offline", "--fetch-retries=5")
	return p
}

// readVersion returns the installed version of a package.
func (p npmPeers) readVersion(name string) (string, error) {
	if p.missing != nil {
		return "", p.missing
	}
	var manifest struct {
		Version string `json:"version"`
	}
	text, err := os.ReadFile(filepath.Join(p.dir, "node_modules", name, "package.json"))
	if err == nil {
		err = json.Unmarshal(text, &manifest)
	}
	if err != nil {
		return "", fmt.Errorf("read version of %s: %w", name, err)
	}
	return manifest.Version, nil
}

// startNode prepares a program of the peers' folder.
func (p npmPeers) startNode(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "node", args...) //nolint:gosec // G204: programs of bench/peers
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "NODE_ENV=production")
	return cmd
}

// runIn runs a program in a folder and returns its output.
func runIn(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // G204: installers of peers
	cmd.Dir = dir
	said, err := cmd.CombinedOutput()
	text := strings.TrimSpace(string(said))
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, text[max(0, len(text)-500):])
	}
	return text, nil
}

// addSubject adds a program to the report.
func (r *report) addSubject(phase, name, does string) *subject {
	s := &subject{Phase: phase, Name: name, Does: does}
	r.Subjects = append(r.Subjects, s)
	return s
}

// addresses are of registries, and absolute paths of files; every machine has its own.
var addresses = regexp.MustCompile(`https?://\S+|(^|\s)/\S+`)

// recordMissing notes why a peer is not measured. The others are measured nevertheless, unless the run was interrupted.
func (b *bench) recordMissing(ctx context.Context, s *subject, reason error) error {
	if ctx.Err() != nil {
		return errors.Join(ctx.Err(), reason)
	}
	text := addresses.ReplaceAllString(strings.ReplaceAll(reason.Error(), b.dir, "TMP"), " …")
	s.Missing = strings.Join(strings.Fields(text), " ")
	b.logf("  %s: not measured: %v", s.Name, reason)
	return nil
}

// addOf adds a figure of a subject.
func (r *report) addOf(s *subject, name, unit string, rounds []float64) {
	r.addMedian(s.Phase, name, unit, rounds).Subject = s.Name
}
