package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestPercentile(t *testing.T) {
	t.Parallel()
	var sorted []time.Duration
	for i := range 100 {
		sorted = append(sorted, time.Duration(i+1)*time.Millisecond)
	}
	for _, c := range []struct {
		p    float64
		want float64
	}{{0, 1}, {0.5, 51}, {0.99, 100}, {1, 100}} {
		if got := percentile(sorted, c.p, time.Millisecond); got != c.want {
			t.Errorf("percentile %v: got %v, want %v", c.p, got, c.want)
		}
	}
	if got := percentile(nil, 0.5, time.Millisecond); got != 0 {
		t.Errorf("percentile of nothing: got %v", got)
	}
}

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		values []float64
		want   float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 1, 2, 9}, 3}} {
		if got := median(c.values); got != c.want {
			t.Errorf("median of %v: got %v, want %v", c.values, got, c.want)
		}
	}
}

func TestRound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ value, want float64 }{{0, 0}, {12345.6, 12346}, {1.23456, 1.23}, {0.0123456, 0.0123}, {98.76, 98.8}} {
		if got := roundFigure(c.value); got != c.want {
			t.Errorf("round %v: got %v, want %v", c.value, got, c.want)
		}
	}
}

func TestParkedTextMakesArgumentsOfTheirLength(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, number := range []int{0, 7, 12345} {
		arguments := `{"text":"` + parkedText(number) + `"}`
		if len(arguments) != parkedBytes {
			t.Errorf("call %d has %d bytes of arguments, want %d", number, len(arguments), parkedBytes)
		}
		seen[arguments] = true
	}
	if len(seen) != 3 {
		t.Error("different calls have the same arguments")
	}
}

func TestPrintTellsWhatWasMissed(t *testing.T) {
	t.Parallel()
	var r report
	r.addFigure("one", "fast", "ms", 1).aimBelow(3)
	r.addFigure("one", "slow", "ms", 4).addSpread([]float64{3, 4, 5}).aimAtMost(3)
	var out bytes.Buffer
	if err := r.printTable(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"< 3  reached", "≤ 3  MISSED", "3 to 5"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
}
