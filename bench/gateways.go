package main

import (
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

const gatewaysPhase = "gateways"

// The figures of a gateway.
const (
	gatewayP50    = "1 client: p50"
	gatewayTimes  = "1 client: p50 / direct"
	gatewayRate   = "32 clients: calls"
	gatewayShare  = "32 clients: calls / direct"
	gatewayCPU    = "32 clients: processor time"
	gatewayMemory = "memory"
)

// gateway is a way to the tool "echo" of the skill server.
type gateway struct {
	*subject
	process *process // nil: the stage's own
	target  target
	start   func(context.Context, *gateway) error
	clients clientGroup
	rounds  map[int]series // by number of clients
	memory  float64        // MiB
}

// measureGateways makes the same calls directly, through Holdpoint and through other gateways. Each round visits all of them.
func (p npmPeers) measureGateways(ctx context.Context, s *stage) error {
	peers := &gatewayPeers{stage: s, npm: p}
	all := []*gateway{
		{subject: s.report.addSubject(gatewaysPhase, "direct", "No gateway."), target: s.directTarget()},
		{subject: s.report.addSubject(gatewaysPhase, "Holdpoint", "Validates arguments, applies policy, records each call before it is sent and after its "+
			"outcome, in PostgreSQL."), target: s.openTarget()},
		{subject: s.report.addSubject(gatewaysPhase, "TBXark mcp-proxy", "Forwards, without sessions. One URL for each server."), start: peers.startTBXark},
		{
			subject: s.report.addSubject(gatewaysPhase, "npm mcp-proxy", "Forwards to a server on standard input and output, one process for each session."),
			start:   peers.startNPMProxy,
		},
		{subject: s.report.addSubject(gatewaysPhase, "Docker MCP Gateway", "Merges the tools of several servers and forwards."), start: peers.startDocker},
	}
	all[1].Version = s.report.Machine.Revision
	defer func() {
		for _, g := range all {
			g.clients.close()
			if g.process != nil {
				g.process.stop()
			}
		}
	}()
	for _, g := range all {
		if err := s.openGateway(ctx, g); err != nil {
			return err
		}
	}
	for _, n := range []int{1, crowd} {
		for round := range choose(s.bench, 9, 3) {
			for i := range all { // each round begins with another one
				if err := s.driveGateway(ctx, all[(i+round)%len(all)], n); err != nil {
					return err
				}
			}
		}
	}
	s.reportGateways(all)
	return nil
}

// openGateway starts a gateway, connects its clients and warms it up.
func (s *stage) openGateway(ctx context.Context, g *gateway) error {
	g.rounds = make(map[int]series)
	err := func() error {
		if g.start != nil {
			s.logf("  starting %s", g.Name)
			if err := g.start(ctx, g); err != nil {
				return err
			}
		}
		var err error
		if g.clients, err = connectClients(ctx, g.target, crowd, 1, crowd); err != nil {
			return err
		}
		_, err = s.driveCalls(ctx, g.clients.wires, choose(s.bench, 3*time.Second, time.Second))
		return err
	}()
	if err != nil && g.start != nil {
		return s.recordMissing(ctx, g.subject, err)
	}
	return err
}

// driveGateway makes one round.
func (s *stage) driveGateway(ctx context.Context, g *gateway, clients int) error {
	if g.Missing != "" {
		return nil
	}
	pid := 0
	if g.process != nil {
		pid = g.process.pid()
	}
	before, _ := readCPUMicros(pid) // without /proc, there is no figure
	one, err := s.driveCalls(ctx, g.clients.wires[:clients], choose(s.bench, 2500*time.Millisecond, 300*time.Millisecond))
	if err != nil && g.start != nil {
		return s.recordMissing(ctx, g.subject, fmt.Errorf("%w; it said: %s", err, g.process.logTail()))
	}
	if err != nil {
		return err
	}
	if g.process != nil {
		after, _ := readCPUMicros(pid)
		one.serve, one.database = (after-before)/float64(one.calls), 0
	}
	g.rounds[clients] = append(g.rounds[clients], one)
	s.logf("  %2d clients, %s: %.0f µs, %.0f/s", clients, g.Name, one.p50, one.rate)
	if pid == 0 {
		pid = s.serve.pid()
	}
	if now, _, err := readMemory(pid); err == nil {
		g.memory = float64(now) / (1 << 20)
	}
	return nil
}

func (s *stage) reportGateways(all []*gateway) {
	direct := all[0].rounds
	for i, g := range all {
		if g.Missing != "" {
			continue
		}
		add := func(name, unit string, rounds []float64) { s.report.addOf(g.subject, name, unit, rounds) }
		add(gatewayP50, "µs", g.rounds[1].valuesOf(p50))
		add(gatewayRate, "calls/s", g.rounds[crowd].valuesOf(callRate))
		if i == 0 {
			continue
		}
		ratio := func(name string, clients int, of func(sample) float64) {
			a, b := g.rounds[clients].valuesOf(of), direct[clients].valuesOf(of)
			f := s.report.addFigure(gatewaysPhase, name, "ratio", median(a)/median(b)).addSpread(divideRounds(a, b))
			f.Subject = g.Name
		}
		ratio(gatewayTimes, 1, p50)
		ratio(gatewayShare, crowd, callRate)
		if used := g.rounds[crowd].valuesOf(func(s sample) float64 { return s.serve + s.database }); median(used) > 0 {
			add(gatewayCPU, "µs/call", used)
		}
		if g.memory > 0 {
			add(gatewayMemory, "MiB", []float64{g.memory})
		}
	}
}

// gatewayPeers starts the gateways of others in front of the stage's skill server.
type gatewayPeers struct {
	*stage
	npm npmPeers
}

// buildTool builds the tool that the module in a folder of bench/peers names, and returns its version.
func (p gatewayPeers) buildTool(ctx context.Context, folder, tool string) (binary, version string, err error) {
	binary = filepath.Join(p.dir, folder)
	if _, err := runIn(ctx, filepath.Join(p.root, "bench", "peers", folder), "go", "build", "-o", binary, tool); err != nil {
		return "", "", err
	}
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return "", "", fmt.Errorf("read version of %s: %w", tool, err)
	}
	return binary, info.Main.Version, nil
}

// startAndAwait starts the gateway and waits until a session can be opened.
func (g *gateway) startAndAwait(ctx context.Context, cmd *exec.Cmd, log string) (err error) {
	if g.process, err = startProcess(cmd, log); err != nil {
		return err
	}
	var last error
	err = g.process.waitFor(ctx, startPatience, func(ctx context.Context) bool {
		w, err := openSession(ctx, g.target)
		if last = err; err != nil {
			return false
		}
		defer w.close()
		last = w.callTool(echoedText)
		return last == nil
	})
	if err != nil {
		return errors.Join(err, last)
	}
	return nil
}

func (p gatewayPeers) startTBXark(ctx context.Context, g *gateway) error {
	binary, version, err := p.buildTool(ctx, "tbxark", "github.com/TBXark/mcp-proxy")
	if err != nil {
		return err
	}
	addr, err := freeAddr(ctx)
	if err != nil {
		return err
	}
	config, err := json.Marshal(map[string]any{
		"mcpProxy": map[string]any{
			"baseURL": "http://" + addr, "addr": addr, "name": "bench", "version": "1", "type": "streamable-http",
		},
		"mcpServers": map[string]any{
			"skill": map[string]any{"transportType": "streamable-http", "url": "http://" + p.skillAt + "/mcp"},
		},
	})
	if err != nil {
		return err
	}
	file := filepath.Join(p.dir, "tbxark.json")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return err
	}
	g.Version, g.target = version, target{addr: addr, path: "/skill/mcp", tool: "echo", stateless: true}
	return g.startAndAwait(ctx, exec.CommandContext(ctx, binary, "-config", file), filepath.Join(p.dir, "tbxark.log")) //nolint:gosec // G204: just built
}

func (p gatewayPeers) startNPMProxy(ctx context.Context, g *gateway) error {
	var err error
	if g.Version, err = p.npm.readVersion("mcp-proxy"); err != nil {
		return err
	}
	addr, err := freeAddr(ctx)
	if err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	g.target = target{addr: addr, path: "/mcp", tool: "echo"}
	cmd := p.npm.startNode(ctx, filepath.Join("node_modules", "mcp-proxy", "dist", "bin", "mcp-proxy.mjs"),
		"--host", host, "--port", port, "--server", "stream", "--", self, skillRole, "stdio")
	return g.startAndAwait(ctx, cmd, filepath.Join(p.dir, "npm-proxy.log"))
}

func (p gatewayPeers) startDocker(ctx context.Context, g *gateway) error {
	binary, version, err := p.buildTool(ctx, "docker", "github.com/docker/mcp-gateway/cmd/docker-mcp")
	if g.Version = version; err != nil {
		return err
	}
	addr, err := freeAddr(ctx)
	if err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	home := filepath.Join(p.dir, "docker-home")
	catalogs := filepath.Join(home, ".docker", "mcp", "catalogs")
	if err := os.MkdirAll(catalogs, 0o700); err != nil {
		return err
	}
	catalog, err := json.Marshal(map[string]any{"registry": map[string]any{ // JSON is YAML
		"skill": map[string]any{
			"type": "remote", "title": "skill", "description": "skill",
			"remote": map[string]any{"url": "http://" + p.skillAt + "/mcp", "transport_type": "http"},
		},
	}})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(catalogs, "bench.yaml"), catalog, 0o600); err != nil {
		return err
	}
	g.target = target{addr: addr, path: "/mcp", tool: "echo"}
	cmd := exec.CommandContext(ctx, binary, "gateway", "run", "--catalog", filepath.Join(catalogs, "bench.yaml"), //nolint:gosec // G204: just built
		"--servers", "skill", "--secrets", os.DevNull, "--transport", "streaming", "--host", host, "--port", port, "--allow-unauthenticated")
	cmd.Env = append(os.Environ(), "HOME="+home, "DOCKER_MCP_IN_CONTAINER=1") // it wants Docker Desktop otherwise
	return g.startAndAwait(ctx, cmd, filepath.Join(p.dir, "docker.log"))
}
