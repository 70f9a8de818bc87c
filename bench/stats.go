package main

import (
	"slices"
	"time"
)

// percentile returns a percentile of sorted durations in a unit.
func percentile(sorted []time.Duration, p float64, unit time.Duration) float64 {
	if len(sorted) == 0 {
		return 0
	}
	i := int(p * float64(len(sorted)))
	return float64(sorted[min(i, len(sorted)-1)]) / float64(unit)
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// divideRounds returns a/b of each round.
func divideRounds(a, b []float64) []float64 {
	ratios := make([]float64, min(len(a), len(b)))
	for i := range ratios {
		ratios[i] = a[i] / b[i]
	}
	return ratios
}
