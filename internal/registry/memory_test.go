package registry_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdpoint/holdpoint/internal/leaktest"
	"github.com/holdpoint/holdpoint/internal/registry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.Patient(m)) }

// clock is set by tests.
type clock struct{ at atomic.Int64 }

func (c *clock) now() time.Time          { return time.Unix(0, c.at.Load()) }
func (c *clock) forward(d time.Duration) { c.at.Add(int64(d)) }

func newMemory(t *testing.T, cfg registry.Config[int]) (*registry.Memory[string, int], *clock) {
	t.Helper()
	c := &clock{}
	cfg.Now = c.now
	m := registry.NewMemory[string](cfg)
	t.Cleanup(m.Close)
	return m, c
}

func loadValue(v int) func(context.Context) (int, error) {
	return func(context.Context) (int, error) { return v, nil }
}

func wantValue(t *testing.T, m *registry.Memory[string, int], load func(context.Context) (int, error), want int) {
	t.Helper()
	if got, err := m.Get(t.Context(), "k", load); err != nil || got != want {
		t.Fatalf("got %d, %v, want %d", got, err, want)
	}
}

func TestRemembersUntilDroppedOrOld(t *testing.T) {
	t.Parallel()
	m, c := newMemory(t, registry.Config[int]{TTL: time.Second})
	wantValue(t, m, loadValue(1), 1)
	wantValue(t, m, loadValue(2), 1)
	m.Drop()
	wantValue(t, m, loadValue(3), 3)
	c.forward(time.Second)
	wantValue(t, m, loadValue(4), 4)
	m.DropIf(func(key string) bool { return key != "k" })
	wantValue(t, m, loadValue(5), 4)
	m.DropIf(func(key string) bool { return key == "k" })
	wantValue(t, m, loadValue(6), 6)
}

func TestErrorsAreNotRemembered(t *testing.T) {
	t.Parallel()
	m, _ := newMemory(t, registry.Config[int]{})
	broken := errors.New("broken")
	if _, err := m.Get(t.Context(), "k", func(context.Context) (int, error) { return 0, broken }); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	wantValue(t, m, loadValue(1), 1)
}

func TestPanicIsAnErrorForAllWhoWait(t *testing.T) {
	t.Parallel()
	m, _ := newMemory(t, registry.Config[int]{})
	entered, release := make(chan struct{}), make(chan struct{})
	var waiting sync.WaitGroup
	ask := func(load func(context.Context) (int, error)) {
		if v, err := m.Get(t.Context(), "k", load); err == nil || !strings.Contains(err.Error(), "out of cheese") {
			t.Errorf("got %d, %v", v, err)
		}
	}
	waiting.Go(func() {
		ask(func(context.Context) (int, error) {
			close(entered)
			<-release
			panic("out of cheese")
		})
	})
	<-entered
	for range 3 {
		// A later caller loads again, with the same result.
		waiting.Go(func() { ask(func(context.Context) (int, error) { panic(errors.New("out of cheese")) }) })
	}
	close(release)
	waiting.Wait()
	wantValue(t, m, loadValue(1), 1)
}

func TestLoadsOnceForAll(t *testing.T) {
	t.Parallel()
	m, _ := newMemory(t, registry.Config[int]{})
	entered, release := make(chan struct{}), make(chan struct{})
	var loads atomic.Int32
	load := func(context.Context) (int, error) {
		if loads.Add(1) == 1 {
			close(entered)
		}
		<-release
		return 7, nil
	}
	// The first caller leaves. The later ones still get the value.
	first, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := m.Get(first, "k", load)
		left <- err
	}()
	<-entered
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Fatalf("who left got %v", err)
	}
	var others sync.WaitGroup
	for range 10 {
		others.Go(func() { wantValue(t, m, load, 7) })
	}
	close(release)
	others.Wait()
	if n := loads.Load(); n != 1 {
		t.Errorf("%d loads", n)
	}
}

func TestLoadBegunBeforeDropIsNotRemembered(t *testing.T) {
	t.Parallel()
	for name, drop := range map[string]func(m *registry.Memory[string, int]){
		"all": (*registry.Memory[string, int]).Drop,
		"one": func(m *registry.Memory[string, int]) { m.DropIf(func(string) bool { return true }) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, _ := newMemory(t, registry.Config[int]{})
			entered, release := make(chan struct{}), make(chan struct{})
			old := make(chan int, 1)
			go func() {
				v, _ := m.Get(t.Context(), "k", func(context.Context) (int, error) {
					close(entered)
					<-release
					return 1, nil
				})
				old <- v
			}()
			<-entered
			drop(m)
			wantValue(t, m, loadValue(2), 2) // does not wait for the old load
			close(release)
			if v := <-old; v != 1 {
				t.Errorf("who asked before the drop got %d", v)
			}
			wantValue(t, m, loadValue(3), 2)
		})
	}
}

func TestGetIfJudgesAge(t *testing.T) {
	t.Parallel()
	m, c := newMemory(t, registry.Config[int]{})
	young := func(_ int, age time.Duration) bool { return age < time.Minute }
	wantValue(t, m, loadValue(1), 1)
	c.forward(59 * time.Second)
	if v, err := m.GetIf(t.Context(), "k", young, loadValue(2)); v != 1 || err != nil {
		t.Errorf("young: %d, %v", v, err)
	}
	c.forward(time.Second)
	if v, err := m.GetIf(t.Context(), "k", young, loadValue(2)); v != 2 || err != nil {
		t.Errorf("old: %d, %v", v, err)
	}
	wantValue(t, m, loadValue(3), 2)
}

func TestIsBounded(t *testing.T) {
	t.Parallel()
	m, _ := newMemory(t, registry.Config[int]{MaxSize: 10, Size: func(v int) int { return v }})
	for _, key := range []string{"a", "b", "c"} {
		m.Put(key, 4)
	}
	_, a := m.Peek("a")
	_, c := m.Peek("c")
	if a || !c {
		t.Errorf("remembered a: %v, c: %v", a, c)
	}
}

func TestStartLoadsInTheBackground(t *testing.T) {
	t.Parallel()
	m, _ := newMemory(t, registry.Config[int]{})
	release := make(chan struct{})
	m.Start(t.Context(), "k", func(context.Context) (int, error) {
		<-release
		return 1, nil
	})
	if _, ok := m.Peek("k"); ok {
		t.Error("known before it was loaded")
	}
	close(release)
	wantValue(t, m, loadValue(2), 1)
}

func TestStartAllLoadsWhatIsUnknownAtOnce(t *testing.T) {
	t.Parallel()
	m, _ := newMemory(t, registry.Config[int]{})
	m.Put("known", 1)
	asked, release := make(chan []string, 1), make(chan struct{})
	m.StartAll(t.Context(), []string{"known", "a", "b", "a"}, func(_ context.Context, keys []string) (map[string]int, error) {
		asked <- keys
		<-release
		return map[string]int{"a": 2}, nil
	})
	if keys := <-asked; !slices.Equal(slices.Sorted(slices.Values(keys)), []string{"a", "b"}) {
		t.Errorf("loaded %v", keys)
	}
	m.StartAll(t.Context(), []string{"a", "b"}, func(context.Context, []string) (map[string]int, error) {
		t.Error("loaded again what is being loaded")
		return nil, nil
	})
	close(release)
	for key, want := range map[string]int{"known": 1, "a": 2, "b": 0} {
		if got, err := m.Get(t.Context(), key, loadValue(3)); err != nil || got != want {
			t.Errorf("%s: got %d, %v, want %d", key, got, err, want)
		}
	}
}

func TestCloseEndsLoads(t *testing.T) {
	t.Parallel()
	m, _ := newMemory(t, registry.Config[int]{})
	m.Start(t.Context(), "k", func(ctx context.Context) (int, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	})
	m.Close()
	if _, err := m.Get(t.Context(), "k", loadValue(1)); !errors.Is(err, registry.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}
