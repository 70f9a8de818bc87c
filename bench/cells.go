package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// cellsPhase is computed, not measured.
const cellsPhase = "cells"

// The house whose agents are divided among cells. A cell has the two cores of the measured machine.
const (
	cellCores    = 2
	houseCalls   = 2000.0 // a second, of all agents
	houseAgents  = 1000
	gatedShare   = 0.01
	decisionTime = 10 * time.Minute // mean time until a person decides
	cellJobs     = 400_000          // simulated in a cell
	cellsSeed    = 1
)

//go:embed results.json
var measuredResults []byte

// workload has the times that one core works on a job, from measured rates at which all cores were busy.
type workload struct {
	call    float64 // seconds, for recording, sending and the outcome of a call
	parking float64 // seconds, for a call that waits for a person
}

// readWorkload reads the measured rates. The clients and the skill server shared the cores, so the times are too long rather than too short.
func readWorkload() (workload, error) {
	var results struct {
		Figures []struct {
			Name  string  `json:"name"`
			Value float64 `json:"value"`
		} `json:"figures"`
	}
	if err := json.Unmarshal(measuredResults, &results); err != nil {
		return workload{}, fmt.Errorf("read %s: %w", resultsFile, err)
	}
	rates := map[string]float64{}
	for _, f := range results.Figures {
		rates[f.Name] = f.Value
	}
	w := workload{call: cellCores / rates["32 clients, through: calls"], parking: cellCores / rates["16 clients: calls parked"]}
	if math.IsInf(w.call+w.parking, 0) {
		return workload{}, fmt.Errorf("%s: must have the rates of overhead and of parked", resultsFile)
	}
	return w, nil
}

// job is a kind of work: how often it arrives, and how long a core works on it. Both are exponentially distributed.
type job struct {
	perSecond float64
	mean      float64 // seconds
}

// computeLoad returns the part of the cores that the jobs take.
func computeLoad(jobs []job, cores int) float64 {
	sum := 0.0
	for _, j := range jobs {
		sum += j.perSecond * j.mean
	}
	return sum / float64(cores)
}

// simulateQueue simulates n jobs that wait in one queue for one of the cores. It returns the times from arrival to end of the first kind,
// in seconds, and the mean wait of all.
func simulateQueue(random *rand.Rand, cores int, jobs []job, n int) (times []float64, meanWait float64) {
	total := 0.0
	for _, j := range jobs {
		total += j.perSecond
	}
	free := make([]float64, cores) // when each core is free
	now := 0.0
	for range n {
		now += random.ExpFloat64() / total
		kind, mean := pickJob(jobs, random.Float64()*total)
		first := 0
		for i := range free {
			if free[i] < free[first] {
				first = i
			}
		}
		wait := max(0, free[first]-now)
		free[first] = now + wait + random.ExpFloat64()*mean
		meanWait += wait / float64(n)
		if kind == 0 {
			times = append(times, free[first]-now)
		}
	}
	return times, meanWait
}

// pickJob returns the kind of a job, and how long it takes on average. The pick is between 0 and the sum of the rates.
func pickJob(jobs []job, pick float64) (kind int, mean float64) {
	for i, j := range jobs {
		kind, mean = i, j.mean
		if pick -= j.perSecond; pick < 0 {
			break
		}
	}
	return kind, mean
}

// agentRates divides the calls among agents. With a skew of 0 all have the same; with 1 the second has half of the first, the third a
// third, and so on (Zipf).
func agentRates(skew float64) []float64 {
	rates, sum := make([]float64, houseAgents), 0.0
	for i := range rates {
		rates[i] = math.Pow(float64(i+1), -skew)
		sum += rates[i]
	}
	for i := range rates {
		rates[i] *= houseCalls / sum
	}
	return rates
}

// placeAgents returns the calls a second of each cell. Agents are placed at random, or each in the cell with the least load.
func placeAgents(random *rand.Rand, rates []float64, cells int, byLoad bool) []float64 {
	placed := make([]float64, cells)
	for _, i := range random.Perm(len(rates)) {
		to := random.IntN(cells)
		if byLoad {
			to = slices.Index(placed, slices.Min(placed))
		}
		placed[to] += rates[i]
	}
	return placed
}

// house is one row: how many cells there are, how uneven the agents are, and how they are placed.
type house struct {
	cells  int
	skew   float64
	byLoad bool
}

func listHouses() []house {
	houses := []house{{cells: 1}}
	for _, cells := range []int{2, 4, 8} {
		houses = append(houses, house{cells, 0, false}, house{cells, 1, false}, house{cells, 1, true})
	}
	return houses
}

// printCells writes the table of docs/scaling.md.
func printCells(w io.Writer) error {
	work, err := readWorkload()
	if err != nil {
		return err
	}
	var text strings.Builder
	text.WriteString("| cells | agents | placed | calls/s of the busiest cell | its load | approve to outcome, p99 | parked in it | calls that stop if it fails |\n|---|---|---|---|---|---|---|---|\n")
	for _, h := range listHouses() {
		text.WriteString(h.formatRow(work))
	}
	_, err = io.WriteString(w, text.String())
	return err
}

// formatRow simulates the busiest cell of a house, and returns its row of the table.
func (h house) formatRow(work workload) string {
	random := rand.New(rand.NewPCG(cellsSeed, uint64(h.cells))) //nolint:gosec // G404: the same figures each time
	busiest := slices.Max(placeAgents(random, agentRates(h.skew), h.cells, h.byLoad))
	jobs := []job{{busiest, work.call}, {busiest * gatedShare, work.parking}}
	agents, placed, p99 := "alike", "at random", "overloaded"
	if h.skew > 0 {
		agents = "uneven"
	}
	if h.byLoad {
		placed = "by load"
	}
	if h.cells == 1 {
		placed = "–"
	}
	if computeLoad(jobs, cellCores) < 1 {
		times, _ := simulateQueue(random, cellCores, jobs, cellJobs)
		slices.Sort(times)
		p99 = fmt.Sprintf("%.0f ms", 1000*times[len(times)*99/100])
	}
	return fmt.Sprintf("| %d | %s | %s | %.0f | %.0f %% | %s | %.0f | %.0f %% |\n", h.cells, agents, placed, busiest,
		100*computeLoad(jobs, cellCores), p99, busiest*gatedShare*decisionTime.Seconds(), 100*busiest/houseCalls)
}
