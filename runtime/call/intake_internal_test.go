package call

import "testing"

// TestSizesOfItems: the size of an item includes its arguments or its result.
func TestSizesOfItems(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	s := &Service{}
	if n := s.outcomesConfig().Size(&move{outcome: outcome{result: make([]byte, size)}}); n < size {
		t.Errorf("a result of %d bytes counts %d", size, n)
	}
	if n := s.intakeConfig().Size(&intakeItem{call: &Call{Arguments: make([]byte, size)}}); n < size {
		t.Errorf("arguments of %d bytes count %d", size, n)
	}
}
