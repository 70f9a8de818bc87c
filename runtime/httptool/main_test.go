package httptool_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/holdpoint/holdpoint/internal/leaktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.Patient(m)) }
