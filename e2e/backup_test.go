package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/e2e/internal/skill"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/modelserver"
	"github.com/holdpoint/holdpoint/internal/postgrestest/replica"
)

// The calls of the drill, by their argument n
const (
	decidedBefore = 8  // from 0: decided before the backup
	decidedDuring = 20 // up to this one: decided while it is taken
	decidedAfter  = 28 // up to this one: decided after it, except 20, the first, which is approved a second time on the restored database
	neverDecided  = 36 // up to this one: decided on the restored database only
	heldGated     = 100
	heldOpen      = 101
	withFile      = 102
	madeAfter     = 150 // made after the backup, and not decided
	ofModel       = 300 // gated
	ofModelLater  = 301 // auto-approved
	loadStart     = 1000
)

const fileContent = "an invoice"

// drill is a set-up that is backed up under load, loses its servers and its database, and continues from the backup.
type drill struct {
	*world

	servers        []*holdpoint.Process
	counting, slow *skill.Counting
	model          *modelserver.Server
	agent          holdpoint.Agent
	talker         holdpoint.API
	conversation   string

	clients  map[int]*stubborn
	answers  map[int]<-chan outcome
	told     map[int]holdpoint.Answer
	finished map[string]string // the status of each call that ended before the backup, by its id
}

func newDrill(t *testing.T, databaseURL string) *drill {
	t.Helper()
	d := &drill{
		world:    &world{t: t, databaseURL: databaseURL, dataDir: passableDir(t)},
		counting: skill.NewCounting(t), slow: skill.NewCounting(t),
		clients: map[int]*stubborn{}, answers: map[int]<-chan outcome{}, told: map[int]holdpoint.Answer{}, finished: map[string]string{},
	}
	record := func(skill string, n int) modelserver.Answer {
		return modelserver.Answer{Text: "One call.", Calls: []modelserver.Call{{Name: skill + "__record", Arguments: fmt.Sprintf(`{"n":%d}`, n)}}}
	}
	var url string
	d.model, url = startModel(t, modelserver.Sequence(record("counting", ofModel), record("open", ofModelLater), modelserver.Answer{Text: "Done."}, modelserver.Answer{Text: "Still here."}))
	d.servers = []*holdpoint.Process{d.startServer(), d.startServer()}
	d.applyManifest(d.servers[0], fmt.Sprintf(`skills:
  - {name: counting, transport: http, url: %[1]q, approval_timeout: 1h}
  - {name: open, transport: http, url: %[1]q, auto_approve: true}
  - {name: slow, transport: http, url: %[2]q, approval_timeout: 1h, call_timeout: 10m}
  - {name: slowopen, transport: http, url: %[2]q, auto_approve: true, call_timeout: 10m}
  - {name: filing, transport: http, url: %[3]q, approval_timeout: 1h}
agents:
  - {name: worker, wait_budget: 5s, limits: {pending: 1000}, skills: [counting, open, slow, slowopen, filing]}
  - {name: talker, model: {provider: openai, name: test-model, base_url: %[4]q}, skills: [counting, open]}
`, d.counting.URL, d.slow.URL, startHashing(t).URL, url+"/v1"))
	d.agent = d.newAgent(d.servers[0], "worker")
	d.talker = holdpoint.API{URL: d.servers[0].URL, Token: d.newAgent(d.servers[0], "talker").Key}
	return d
}

// begin makes a call whose client asks until it knows the outcome.
func (d *drill) begin(n int, tool, more string) {
	client := newStubborn(d.agent, d.servers...)
	client.meta = fmt.Sprintf(`{"dev.holdpoint/idempotency_key":"%d"}`, n)
	d.clients[n], d.answers[n] = client, client.beginCall(d.t.Context(), tool, fmt.Sprintf(`{"n":%d%s}`, n, more))
}

func (d *drill) await(n int) holdpoint.Answer {
	d.t.Helper()
	if answer, ok := d.told[n]; ok {
		return answer
	}
	got := <-d.answers[n]
	if got.err != nil {
		d.t.Fatalf("call %d: %v", n, got.err)
	}
	d.told[n] = got.answer
	return got.answer
}

// decide approves the calls from first up to end, but rejects every fourth.
func (d *drill) decide(first, end int) error {
	for n := first; n < end; n++ {
		shown, err := pendingFor(d.t.Context(), strconv.Itoa(n), d.servers...)
		if err != nil {
			return err
		}
		api := operatorAPI(d.servers[n%len(d.servers)])
		if n%4 == 3 {
			err = api.Reject(d.t.Context(), shown, "chance")
		} else {
			err = api.Approve(d.t.Context(), shown)
		}
		if err != nil {
			return fmt.Errorf("decide call %d: %w", n, err)
		}
	}
	return nil
}

// runUntilLoss has calls in all states, backs up while more calls are made, decided and sent, goes on, and kills the servers.
func (d *drill) runUntilLoss(backUp func()) {
	d.t.Helper()
	check := func(err error) {
		d.t.Helper()
		if err != nil {
			d.t.Fatal(err)
		}
	}
	for n := range neverDecided {
		d.begin(n, "counting__record", "")
	}
	d.slow.Hold()
	d.begin(heldGated, "slow__record", "")
	d.begin(heldOpen, "slowopen__record", "")
	file := writeFile(d.t, "invoice.txt", fileContent)
	id := strings.TrimSpace(newCLI(d.servers[0], d.agent.Key).Must(d.t, "files", "upload", file))
	d.begin(withFile, "filing__record", `,"attachments":[{"file_id":"`+id+`"}]`)
	d.conversation = beginTalk(d.t, d.talker, "Count.")
	if answer, err := d.agent.CallTool(d.t.Context(), "counting__record", `{"n":"none"}`); err != nil || !answer.Result.IsError {
		d.t.Errorf("a call with a wrong argument was told %s, %v", answer.Raw, err)
	}
	check(d.decide(heldGated, heldGated+1))
	check(d.decide(0, decidedBefore))
	for n := range decidedBefore {
		d.await(n)
	}
	for _, n := range []int{heldGated, heldOpen} {
		awaitArrival(d.t, d.slow.Ledger, strconv.Itoa(n))
	}
	parkedCalls(d.t, d.servers[0], neverDecided-decidedBefore+2)
	calls, err := holdpoint.List[holdpoint.Call](d.t.Context(), operatorAPI(d.servers[0]), "calls", "")
	check(err)
	for _, call := range calls {
		if call.Final() {
			d.finished[call.ID] = call.Status
		}
	}

	var load, deciding sync.WaitGroup
	ctx, calm := context.WithCancel(d.t.Context())
	var number atomic.Int64
	for range 2 {
		load.Go(func() {
			for ctx.Err() == nil {
				n := loadStart + number.Add(1)
				client := newStubborn(d.agent, d.servers[int(n)%2])
				client.meta = fmt.Sprintf(`{"dev.holdpoint/idempotency_key":"%d"}`, n)
				if answer, err := client.callTool(d.t.Context(), "open__record", fmt.Sprintf(`{"n":%d}`, n)); err != nil || answer.Text() != fmt.Sprintf("recorded %d", n) {
					d.t.Errorf("call %d was told %s, %v", n, answer.Raw, err)
				}
			}
		})
	}
	deciding.Go(func() {
		if err := d.decide(decidedBefore, decidedDuring); err != nil {
			d.t.Error(err)
		}
	})
	backUp()
	deciding.Wait()
	until := number.Load() + 8
	eventually.Holds(d.t, "auto-approved calls after the backup", func() bool { return number.Load() >= until })

	d.slow.Release()
	check(d.decide(decidedDuring, decidedAfter))
	for n := decidedBefore; n < decidedAfter; n++ {
		d.await(n)
	}
	d.await(heldGated)
	d.await(heldOpen)
	check(d.decide(ofModel, ofModel+1))
	awaitTalk(d.t, patience, func() holdpoint.API { return d.talker }, d.conversation, "idle")
	d.begin(madeAfter, "counting__record", "")
	if _, err := pendingFor(d.t.Context(), strconv.Itoa(madeAfter), d.servers...); err != nil {
		d.t.Fatal(err)
	}
	calm()
	load.Wait()
	for _, server := range d.servers {
		server.Kill()
	}
	d.t.Logf("%d auto-approved calls", number.Load())
}

// continueOn starts a server on the restored database, with another data directory, and checks that each call has one outcome.
func (d *drill) continueOn(databaseURL, dataDir string) {
	d.t.Helper()
	executed := d.counting.All()
	d.databaseURL, d.dataDir = databaseURL, dataDir
	doctor := holdpoint.CLI{Program: program, URL: d.servers[0].URL, Env: []string{
		"DATABASE_URL=" + databaseURL, "HOLDPOINT_DATA_DIR=" + dataDir, fmt.Sprintf("HOLDPOINT_ADDR=127.0.0.1:%d", d.servers[0].Port),
	}}
	said := doctor.Must(d.t, "doctor")
	for _, want := range []string{"ok    encryption key", "that of the database", "warn  restored"} {
		if !strings.Contains(said, want) {
			d.t.Errorf("doctor does not say %q:\n%s", want, said)
		}
	}
	o := d.serverOptions()
	o.Port = d.servers[0].Port // links to files name it
	server := program.Serve(d.t, o)
	eventually.Holds(d.t, "the log says that the database was restored", func() bool { return strings.Contains(server.Output(), "the database was restored") })
	api := operatorAPI(server)
	for id, status := range d.finished {
		if call, err := api.Call(d.t.Context(), id); err != nil || call.Status != status {
			d.t.Errorf("call %s is %s, want %s, as before the backup: %v", id, call.Status, status, err)
		}
	}
	unknown, err := holdpoint.List[holdpoint.Call](d.t.Context(), api, "calls", "status=unknown")
	if err != nil {
		d.t.Fatal(err)
	}
	for _, n := range []int{heldGated, heldOpen} {
		if !hasNumber(unknown, n) {
			d.t.Errorf("call %d, which was being sent, is not unknown", n)
		}
	}
	// The client has lost the outcome, and repeats the call.
	d.servers = []*holdpoint.Process{server}
	d.begin(heldOpen, "slowopen__record", "")
	if answer := <-d.answers[heldOpen]; answer.err != nil || answer.answer.Call().Code != "outcome_unknown" {
		d.t.Errorf("the repeat of a call that was being sent was told %s, %v", answer.answer.Raw, answer.err)
	}
	for n, client := range d.clients {
		if _, told := d.told[n]; !told {
			client.addServer(server)
		}
	}
	if said := doctor.Must(d.t, "doctor"); strings.Contains(said, "restored") || !strings.Contains(said, "ok    address") {
		d.t.Errorf("doctor, after the start:\n%s", said)
	}
	requests := len(d.model.Requests())
	d.decideRest(server, executed)
	d.checkOutcomes(api, executed)

	eventually.Holds(d.t, "the conversation is stopped", func() bool {
		var found talk
		err := holdpoint.API{URL: server.URL, Token: d.talker.Token}.Do(d.t.Context(), http.MethodGet, "conversations/"+d.conversation, nil, &found)
		return err == nil && found.Loop != nil && found.Loop.Status == "idle"
	})
	if n := len(d.model.Requests()); n != requests {
		d.t.Errorf("the model was asked %d times without a person's message", n-requests)
	}
	d.talker.URL = server.URL
	if err := d.talker.Do(d.t.Context(), http.MethodPost, "conversations/"+d.conversation+"/messages", map[string]string{"message": "Go on."}, nil); err != nil {
		d.t.Fatal(err)
	}
	eventually.Holds(d.t, "the model is asked again", func() bool { return len(d.model.Requests()) == requests+1 })
	awaitTalk(d.t, patience, func() holdpoint.API { return d.talker }, d.conversation, "idle")
}

func hasNumber(calls []holdpoint.Call, n int) bool {
	for _, call := range calls {
		if argumentN(call.Arguments) == strconv.Itoa(n) {
			return true
		}
	}
	return false
}

// decideRest decides all calls that wait on the restored database, until their clients know the outcome. The reviewer looks at the skill's
// server first, as the page says, and rejects what was executed or rejected after the backup. Only decidedDuring is approved again on purpose.
func (d *drill) decideRest(server *holdpoint.Process, executed map[string]int) {
	d.t.Helper()
	api := operatorAPI(server)
	again := false
	var answered []string // rejected, as clients know
	for n, answer := range d.told {
		if answer.Call().Status == "rejected" {
			answered = append(answered, strconv.Itoa(n))
		}
	}
	done, stop := context.WithCancel(d.t.Context())
	var deciding sync.WaitGroup
	deciding.Go(func() {
		err := eventually.Poll(d.t.Context(), 2*patience, func() error {
			pending, err := holdpoint.List[holdpoint.Approval](d.t.Context(), api, "approvals", "status=pending")
			for _, shown := range pending {
				n := argumentN(shown.Arguments)
				switch {
				case n == strconv.Itoa(decidedDuring):
					again, err = true, errors.Join(err, api.Approve(d.t.Context(), shown))
				case executed[n] > 0 || slices.Contains(answered, n):
					err = errors.Join(err, api.Reject(d.t.Context(), shown, "it was decided after the backup"))
				default:
					err = errors.Join(err, api.Approve(d.t.Context(), shown))
				}
			}
			if err == nil && (done.Err() == nil || len(pending) > 0) {
				err = errors.New("clients are waiting")
			}
			return err
		})
		if err != nil {
			d.t.Error(err)
		}
	})
	for n := range d.clients {
		if n != heldOpen {
			d.await(n)
		}
	}
	stop()
	deciding.Wait()
	if !again {
		d.t.Errorf("call %d, which was approved after the backup, did not wait for a decision again", decidedDuring)
	}
}

// checkOutcomes compares the clients' answers, the restored calls, and the calls that the skill servers executed, at the loss and by now.
func (d *drill) checkOutcomes(api holdpoint.API, atLoss map[string]int) {
	d.t.Helper()
	var calls []holdpoint.Call
	eventually.Succeeds(d.t, patience, "the end of all calls", func() (err error) {
		calls, err = holdpoint.List[holdpoint.Call](d.t.Context(), api, "calls", "")
		for _, call := range calls {
			if !call.Final() {
				err = errors.Join(err, fmt.Errorf("call %s is %s", argumentN(call.Arguments), call.Status))
			}
		}
		return err
	})
	executed := d.counting.All()
	for n, times := range executed {
		want := 1
		if n == strconv.Itoa(decidedDuring) {
			want = 2
		}
		if times != want {
			d.t.Errorf("call %s was executed %d times, want %d", n, times, want)
		}
	}
	for n, answer := range d.told {
		text, number := answer.Text(), strconv.Itoa(n)
		switch {
		case n == withFile && text == sumOf([]byte(fileContent)):
		case strings.Contains(text, "recorded "+number) && executed[number]+d.slow.Count(number) > 0:
		case answer.Call().Status == "rejected" && n != withFile && executed[number] == atLoss[number]:
		default:
			d.t.Errorf("the client of call %d was told %s", n, answer.Raw)
		}
	}
	count := map[string]int{}
	for _, call := range calls {
		n := argumentN(call.Arguments)
		count[call.Status]++
		number, err := strconv.Atoi(n)
		switch {
		case call.Status == "succeeded" && (executed[n] > 0 || number == withFile):
		case call.Status == "rejected" || call.Status == "unknown":
		case call.Status == "invalid" && err != nil:
		default:
			d.t.Errorf("call %s is %s (%s), and was executed %d times", n, call.Status, call.Message, executed[n])
		}
	}
	if n := d.slow.All(); n[strconv.Itoa(heldGated)] != 1 || n[strconv.Itoa(heldOpen)] != 1 {
		d.t.Errorf("the held calls were executed %v times", n)
	}
	d.t.Logf("calls: %v", count)
}

// backupCommands returns the commands of docs/backup.md that contain a text.
func backupCommands(t *testing.T, containing string) string {
	t.Helper()
	page, err := os.ReadFile("../docs/backup.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, rest := range strings.Split(string(page), "```sh")[1:] {
		_, rest, _ = strings.Cut(rest, "\n") // the fence may say why the commands are not run with those of other pages
		block, _, ended := strings.Cut(rest, "```\n")
		if ended && strings.Contains(block, containing) {
			return strings.ReplaceAll(block, "\n   ", "\n") // in a list
		}
	}
	t.Fatalf("docs/backup.md has no command with %s", containing)
	return ""
}

// runHere runs commands of docs/backup.md that concern the data directory, in the folder of the backup.
func runHere(t *testing.T, dir, dataDir, script string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-euc", script)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOLDPOINT_DATA_DIR="+dataDir)
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", script, err, output)
	}
}

// keepFiles copies the keyset and the attached files of a data directory to the backup.
func (d *drill) keepFiles(t *testing.T, backup string) {
	t.Helper()
	runHere(t, backup, d.dataDir, backupCommands(t, `cp -a "$HOLDPOINT_DATA_DIR/files"`)+`cp "$HOLDPOINT_DATA_DIR/secret.keyset.json" .`)
}

// putFiles puts the keyset and the attached files into a new data directory.
func putFiles(t *testing.T, backup string) (dataDir string) {
	t.Helper()
	dataDir = filepath.Join(passableDir(t), "data")
	runHere(t, backup, dataDir, backupCommands(t, "install -m 600 secret.keyset.json"))
	return dataDir
}

// TestRestoredDump: a dump is taken under load and restored on another server of PostgreSQL with the commands of docs/backup.md.
func TestRestoredDump(t *testing.T) {
	t.Parallel()
	server := replica.StartServer(t)
	server.Exec("CREATE DATABASE holdpoint OWNER holdpoint")
	d := newDrill(t, server.URL())
	backup := t.TempDir()
	d.runUntilLoss(func() {
		server.Shell(backupCommands(t, "pg_dump"))
		d.keepFiles(t, backup)
	})
	target := replica.StartServer(t)
	target.Shell(`cp "$DUMP" .`, "DUMP="+filepath.Join(server.Home(), "holdpoint.dump"))
	server.Kill()
	target.Shell(backupCommands(t, "pg_restore"))
	d.continueOn(target.URL(), putFiles(t, backup))
}

// TestPointInTimeRecovery: a base backup and the archived WAL are recovered to a time under load, with the commands of docs/backup.md. The
// role of Holdpoint may not read the system identifier, so only the timeline tells.
func TestPointInTimeRecovery(t *testing.T) {
	t.Parallel()
	server, target := replica.StartServer(t), replica.NewServer(t)
	env := []string{"WAL_ARCHIVE=" + filepath.Join(server.Home(), "archive"), "BASE_BACKUP=" + filepath.Join(server.Home(), "base")}
	server.Shell(`mkdir "$WAL_ARCHIVE"`+"\n"+backupCommands(t, "archive_command"), env...)
	server.Kill()
	server.Start()
	server.Exec("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC", "CREATE DATABASE holdpoint OWNER holdpoint TEMPLATE postgres")
	d := newDrill(t, server.URL())
	if place := readPlaceOfMark(t, server.URL()); !strings.HasPrefix(place, "/") {
		t.Fatalf("the mark has the system identifier, %s", place)
	}
	backup := t.TempDir()
	d.runUntilLoss(func() {
		server.Shell(backupCommands(t, "pg_basebackup"), env...)
		var now string
		server.Query("SELECT clock_timestamp()::text", &now)
		env = append(env, "RECOVERY_TIME="+now)
		d.keepFiles(t, backup)
	})
	var segment string
	server.Query("SELECT pg_walfile_name(pg_switch_wal())", &segment)
	eventually.Succeeds(t, patience, "the WAL is archived", func() error {
		_, err := os.Stat(filepath.Join(server.Home(), "archive", segment))
		return err
	})
	server.Kill()
	target.Shell(backupCommands(t, "recovery_target_time"), env...)
	target.Start()
	eventually.Holds(t, "the time is reached", func() bool {
		var recovering bool
		target.Query("SELECT pg_is_in_recovery()", &recovering)
		return !recovering
	})
	d.continueOn(target.URL(), putFiles(t, backup))
}

func readPlaceOfMark(t *testing.T, databaseURL string) (place string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	if err := conn.QueryRow(t.Context(), "SELECT place FROM database_mark").Scan(&place); err != nil {
		t.Fatal(err)
	}
	return place
}
