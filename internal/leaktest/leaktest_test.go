package leaktest_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdpoint/holdpoint/internal/leaktest"
)

type passing func()

func (p passing) Run() int {
	p()
	return 0
}

func TestPatient(t *testing.T) { //nolint:paralleltest // other tests' goroutines would count
	slow := passing(func() {
		timer := time.NewTimer(time.Second) // longer than goleak waits
		go func() { <-timer.C }()
	})
	if code := leaktest.Patient(slow).Run(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if err := goleak.Find(); err != nil {
		t.Error(err)
	}
}
