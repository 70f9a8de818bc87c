package e2e_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/pause"
	"github.com/holdpoint/holdpoint/internal/postgrestest/faultproxy"
)

const (
	faultInterval = time.Second
	faultTime     = 4 * time.Second  // longest duration of a fault
	longFreeze    = 20 * time.Second // longer than others wait before they take over
)

// fault is one way to break something.
type fault struct {
	kind   string
	target string // each target has one fault at a time
	lasts  time.Duration
	begin  func()
	end    func() // nil if the fault ends by itself
}

// makeFaults starts a fault each second until ctx ends. All faults have ended when it returns.
func (s *torture) makeFaults(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	var bag []fault
	busy := map[string]bool{}
	var mu sync.Mutex
	for pause.For(ctx, faultInterval) == nil {
		if len(bag) == 0 {
			bag = s.everyFault()
			rand.Shuffle(len(bag), func(i, j int) { bag[i], bag[j] = bag[j], bag[i] })
		}
		mu.Lock()
		chosen := 0
		for chosen < len(bag)-1 && busy[bag[chosen].target] {
			chosen++
		}
		f := bag[chosen]
		free := !busy[f.target]
		busy[f.target] = true
		mu.Unlock()
		if !free {
			bag = nil // the rest must wait; the next round has others
			continue
		}
		bag = append(bag[:chosen], bag[chosen+1:]...)
		s.mu.Lock()
		s.faults[f.kind]++
		s.mu.Unlock()
		running.Go(func() {
			f.begin()
			if f.end != nil {
				_ = pause.For(ctx, f.lasts)
				f.end()
			}
			mu.Lock()
			defer mu.Unlock()
			busy[f.target] = false
		})
	}
}

// everyFault returns all faults, with random durations and targets.
func (s *torture) everyFault() []fault {
	lasts := func() time.Duration { return 200*time.Millisecond + rand.N(faultTime) }
	all := s.databaseFaults(lasts)
	for i, proxy := range s.proxies {
		network := processNames[i] + ": network"
		heal := proxy.Heal
		all = append(all,
			fault{"network: delay", network, lasts(), func() { proxy.Delay(faultproxy.Both, 10*time.Millisecond+rand.N(300*time.Millisecond)) }, heal},
			fault{"network: hold some connections", network, lasts(), func() { someConns(proxy).Hold(anyDirection()) }, heal},
			fault{"network: hold everything", network, lasts(), func() { proxy.Hold(anyDirection()) }, heal},
			fault{"network: hold new connections", network, lasts(), func() { proxy.HoldNew(); someConns(proxy).Cut() }, heal},
			fault{"network: black-hole some connections", network, lasts(), func() { someConns(proxy).BlackHole(anyDirection()) }, heal},
			fault{"network: black-hole everything", network, lasts(), proxy.BlackHole, heal},
			fault{"network: half-close", network, 0, func() { someConns(proxy).HalfClose(anyDirection()) }, heal},
			fault{"network: cut some connections", network, 0, func() { someConns(proxy).Cut() }, nil},
			fault{"network: cut everything", network, 0, func() { proxy.CutAll() }, nil},
			fault{"process: SIGSTOP", processNames[i], lasts(), func() { s.signalServer(i, syscall.SIGSTOP) }, func() { s.signalServer(i, syscall.SIGCONT) }},
		)
	}
	victim := rand.IntN(len(s.servers))
	return append(all, fault{
		"process: SIGSTOP for 20 s", processNames[victim], longFreeze,
		func() { s.signalServer(victim, syscall.SIGSTOP) }, func() { s.signalServer(victim, syscall.SIGCONT) },
	})
}

func (s *torture) databaseFaults(lasts func() time.Duration) []fault {
	const target = "database"
	return []fault{
		{
			"database: read-only", target, lasts(),
			func() {
				s.execAsAdmin("ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()")
			},
			func() { s.execAsAdmin("ALTER SYSTEM RESET default_transaction_read_only", "SELECT pg_reload_conf()") },
		},
		{
			"database: freeze walwriter", target, lasts(),
			func() { s.signalWalwriter(syscall.SIGSTOP) }, func() { s.signalWalwriter(syscall.SIGCONT) },
		},
		{
			"database: freeze walwriter, then crash", target, lasts(),
			func() { s.signalWalwriter(syscall.SIGSTOP) }, func() { s.signalWalwriter(syscall.SIGKILL) },
		},
	}
}

// someConns returns about half of a proxy's connections, at least one.
func someConns(p *faultproxy.Proxy) faultproxy.Conns {
	conns := p.Conns()
	rand.Shuffle(len(conns), func(i, j int) { conns[i], conns[j] = conns[j], conns[i] })
	return conns[:(len(conns)+1)/2]
}

func anyDirection() faultproxy.Direction {
	return []faultproxy.Direction{faultproxy.ToServer, faultproxy.ToClient, faultproxy.Both}[rand.IntN(3)]
}

func (s *torture) signalServer(server int, signal syscall.Signal) {
	if err := syscall.Kill(s.servers[server].PID(), signal); err != nil {
		s.t.Errorf("signal the %s: %v", processNames[server], err)
	}
}

// signalWalwriter signals the process that flushes asynchronous commits. If it is killed, the server restarts without
// those commits.
func (s *torture) signalWalwriter(signal syscall.Signal) {
	var pid int
	err := s.askDatabase(func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'").Scan(&pid)
	})
	if err == nil {
		err = syscall.Kill(pid, signal)
	}
	if err != nil {
		s.t.Errorf("signal the walwriter: %v", err)
	}
}

func (s *torture) execAsAdmin(statements ...string) {
	for _, statement := range statements {
		err := s.askDatabase(func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, statement)
			return err
		})
		if err != nil {
			s.t.Errorf("%s: %v", statement, err)
		}
	}
}

// askDatabase retries on its own connection until the database answers, which may be starting.
func (s *torture) askDatabase(ask func(context.Context, *pgx.Conn) error) error {
	return eventually.Poll(s.t.Context(), patience, func() error {
		ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
		defer cancel()
		conn, err := pgx.Connect(ctx, s.db.URL())
		if err != nil {
			return fmt.Errorf("connect: %w", err)
		}
		defer conn.Close(context.WithoutCancel(ctx))
		return ask(ctx, conn)
	})
}
