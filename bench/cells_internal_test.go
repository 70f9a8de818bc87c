package main

import (
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
)

// erlangC is the mean wait in a queue with Poisson arrivals, exponential service times and a number of servers (M/M/c).
func erlangC(servers int, perSecond, mean float64) float64 {
	offered := perSecond * mean
	sum, term := 0.0, 1.0
	for k := range servers {
		sum += term
		term *= offered / float64(k+1)
	}
	last := term / (1 - offered/float64(servers))
	return last / (sum + last) * mean / (float64(servers) - offered)
}

// TestQueueFollowsErlang holds the simulation together with the closed form of M/M/c, and with that of the time in an M/M/1.
func TestQueueFollowsErlang(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		servers int
		load    float64
	}{{1, 0.5}, {1, 0.8}, {2, 0.5}, {2, 0.8}, {4, 0.7}, {8, 0.9}} {
		const mean = 0.001
		perSecond := c.load * float64(c.servers) / mean
		jobs := []job{{perSecond, mean}}
		if got := computeLoad(jobs, c.servers); math.Abs(got-c.load) > 1e-9 {
			t.Errorf("load %v, want %v", got, c.load)
		}
		times, wait := simulateQueue(rand.New(rand.NewPCG(1, 2)), c.servers, jobs, 2_000_000)
		if want := erlangC(c.servers, perSecond, mean); math.Abs(wait/want-1) > 0.05 {
			t.Errorf("%d servers with load %v: mean wait %.4g s, by Erlang's formula %.4g s", c.servers, c.load, wait, want)
		}
		if c.servers > 1 {
			continue
		}
		slices.Sort(times)
		p99, want := times[len(times)*99/100], math.Log(100)*mean/(1-c.load)
		if math.Abs(p99/want-1) > 0.05 {
			t.Errorf("one server with load %v: p99 %.4g s, want %.4g s", c.load, p99, want)
		}
	}
}

// TestTwoKindsOfJobs: two kinds that take as long are one.
func TestTwoKindsOfJobs(t *testing.T) {
	t.Parallel()
	times, wait := simulateQueue(rand.New(rand.NewPCG(1, 2)), 2, []job{{400, 0.001}, {1200, 0.001}}, 2_000_000)
	if want := erlangC(2, 1600, 0.001); math.Abs(wait/want-1) > 0.05 || math.Abs(float64(len(times))/500_000-1) > 0.01 {
		t.Errorf("mean wait %.4g s, want %.4g s; %d of the first kind", wait, want, len(times))
	}
}

func TestAgentsArePlaced(t *testing.T) {
	t.Parallel()
	rates := agentRates(1)
	if math.Abs(rates[0]/rates[9]-10) > 1e-9 {
		t.Errorf("the first agent makes %v calls a second, the tenth %v", rates[0], rates[9])
	}
	for _, byLoad := range []bool{false, true} {
		sum, placed := 0.0, placeAgents(rand.New(rand.NewPCG(1, 2)), rates, 4, byLoad)
		for _, calls := range placed {
			sum += calls
		}
		if math.Abs(sum-houseCalls) > 1e-6 {
			t.Errorf("%v calls a second in all cells", sum)
		}
		if byLoad && slices.Max(placed) > 1.4*houseCalls/4 {
			t.Errorf("placed by load: %v", placed)
		}
	}
}

// TestTableOfCells holds the table of the documentation together with the simulation.
func TestTableOfCells(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	if err := printCells(&table); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../docs/scaling.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), table.String()) {
		t.Errorf("docs/scaling.md does not have the table of `go run ./bench -only cells`:\n%s", table.String())
	}
}
