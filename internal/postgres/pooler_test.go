package postgres_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
)

// pooler is a small PgBouncer without authentication that lends out its server sessions.
type pooler struct {
	upstream    string
	size        int
	transaction bool // lends sessions for a transaction, otherwise for the client's lifetime
	roundRobin  bool // lends the session that was idle longest, otherwise shortest
	announced   uint32

	listener net.Listener
	running  sync.WaitGroup

	mu      sync.Mutex
	freed   *sync.Cond
	closing bool
	made    int
	idle    []*pgconn.PgConn
	clients []net.Conn
}

func (p *pooler) start(t *testing.T) (address string) {
	t.Helper()
	var err error
	if p.listener, err = (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	p.freed = sync.NewCond(&p.mu)
	p.announced = 4_000_000 // not the id of a server process
	p.running.Go(p.accept)
	t.Cleanup(func() {
		p.mu.Lock()
		p.closing = true
		for _, c := range p.clients {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.freed.Broadcast()
		_ = p.listener.Close()
		p.running.Wait()
		for _, session := range p.idle {
			_ = session.Close(context.WithoutCancel(t.Context()))
		}
	})
	return p.listener.Addr().String()
}

func (p *pooler) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		p.clients = append(p.clients, conn)
		p.mu.Unlock()
		p.running.Go(func() {
			defer conn.Close()
			_ = p.serve(conn) // the client sees the closed connection
		})
	}
}

func (p *pooler) serve(conn net.Conn) error {
	client := pgproto3.NewBackend(conn, conn)
	first, err := client.ReceiveStartupMessage()
	if err != nil {
		return err
	}
	if _, ok := first.(*pgproto3.StartupMessage); !ok {
		return errors.New("not a start")
	}
	p.mu.Lock()
	p.announced++
	announced := p.announced
	p.mu.Unlock()
	client.Send(&pgproto3.AuthenticationOk{})
	client.Send(&pgproto3.BackendKeyData{ProcessID: announced, SecretKey: []byte{1, 2, 3, 4}})
	client.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	if err := client.Flush(); err != nil {
		return err
	}
	var session *pgconn.PgConn
	defer func() {
		if session != nil {
			_ = session.Conn().Close() // even in use
			p.giveBack(nil)
		}
	}()
	for {
		message, err := client.Receive()
		if err != nil {
			return err
		}
		if _, ok := message.(*pgproto3.Terminate); ok {
			return nil
		}
		if session == nil {
			if session, err = p.lendSession(); err != nil {
				return err
			}
		}
		server := session.Frontend()
		server.Send(message)
		switch message.(type) {
		case *pgproto3.Query, *pgproto3.Sync:
		default:
			continue // its answer follows the one to Sync
		}
		if err := server.Flush(); err != nil {
			return err
		}
		idle, err := relayAnswer(client, server)
		if err != nil {
			return err
		}
		if idle && p.transaction {
			p.giveBack(session)
			session = nil
		}
		if err := client.Flush(); err != nil {
			return err
		}
	}
}

// relayAnswer passes on an answer, and reports whether the session is outside of a transaction after it.
func relayAnswer(client *pgproto3.Backend, server *pgproto3.Frontend) (idle bool, err error) {
	for {
		answer, err := server.Receive()
		if err != nil {
			return false, err
		}
		client.Send(answer)
		if ready, ok := answer.(*pgproto3.ReadyForQuery); ok {
			return ready.TxStatus == 'I', nil
		}
		if err := client.Flush(); err != nil {
			return false, err
		}
	}
}

func (p *pooler) lendSession() (*pgconn.PgConn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.idle) == 0 && p.made == p.size && !p.closing {
		p.freed.Wait()
	}
	switch n := len(p.idle); {
	case p.closing:
		return nil, errors.New("closing")
	case n == 0:
		p.made++
		return pgconn.Connect(context.Background(), p.upstream)
	case p.roundRobin:
		session := p.idle[0]
		p.idle = p.idle[1:]
		return session, nil
	default:
		session := p.idle[n-1]
		p.idle = p.idle[:n-1]
		return session, nil
	}
}

// giveBack returns a session. nil means that it is lost.
func (p *pooler) giveBack(session *pgconn.PgConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if session == nil {
		p.made--
	} else {
		p.idle = append(p.idle, session)
	}
	p.freed.Signal()
}

func TestTransactionPoolerIsRefused(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]*pooler{
		"one session":           {size: 1},
		"last session first":    {size: 20},
		"longest resting first": {size: 20, roundRobin: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p.upstream, p.transaction = postgrestest.Empty(t).URL(), true
			address := p.start(t)
			for range min(p.size, 5) { // starts with idle sessions, as after some use
				p.idle = append(p.idle, connectTo(t, p.upstream))
				p.made++
			}
			_, err := postgres.Open(t.Context(), postgres.Config{DatabaseURL: "postgres://holdpoint@" + address + "/any?sslmode=disable"})
			if !errors.Is(err, postgres.ErrSharedSessions) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func connectTo(t *testing.T, databaseURL string) *pgconn.PgConn {
	t.Helper()
	conn, err := pgconn.Connect(t.Context(), databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestSessionPoolerIsUsed(t *testing.T) {
	t.Parallel()
	p := &pooler{upstream: postgrestest.Empty(t).URL(), size: 20}
	db := openDB(t, postgres.Config{DatabaseURL: "postgres://holdpoint@" + p.start(t) + "/any?sslmode=disable"})
	if _, err := postgres.Migrate(t.Context(), db, sqlFiles(map[string]string{"0001_a.sql": "CREATE TABLE a (id int)"})); err != nil {
		t.Error(err)
	}
}

func TestReadOnlyServerIsLeftForTheNext(t *testing.T) {
	t.Parallel()
	readOnly, writable := postgrestest.Empty(t), postgrestest.Empty(t)
	makeReadOnly(t, readOnly)
	if _, err := postgres.Open(t.Context(), postgres.Config{DatabaseURL: readOnly.URL()}); err == nil || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("a read-only database alone: %v", err)
	}
	first := &pooler{upstream: readOnly.URL(), size: 20}
	second := &pooler{upstream: writable.URL(), size: 20}
	db := openDB(t, postgres.Config{DatabaseURL: "postgres://holdpoint@" + first.start(t) + "," + second.start(t) + "/any?sslmode=disable"})
	if _, err := db.Pool().Exec(t.Context(), "CREATE TABLE things (id int)"); err != nil {
		t.Error(err)
	}
}

// makeReadOnly affects connections that are made later.
func makeReadOnly(t *testing.T, db *postgres.DB) {
	t.Helper()
	var name string
	err := db.Pool().QueryRow(t.Context(), "SELECT current_database()").Scan(&name)
	if err == nil {
		_, err = db.Pool().Exec(t.Context(), "ALTER DATABASE "+pgx.Identifier{name}.Sanitize()+" SET default_transaction_read_only = on")
	}
	if err != nil {
		t.Fatal(err)
	}
}
