package demo_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/holdpoint/holdpoint/internal/leaktest"
)

func TestMain(m *testing.M) {
	ignored := []goleak.Option{ // idle connections of clients, as a process leaves them
		goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"),
		goleak.IgnoreTopFunction("internal/poll.runtime_pollWait"),
	}
	goleak.VerifyTestMain(leaktest.Patient(m, ignored...), ignored...)
}
