package condition_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/approval/condition"
)

// The usual conditions need no interpreter, and those that it has to judge are left to it.
func TestShortcut(t *testing.T) {
	t.Parallel()
	schema := readSchema(t, oracleSchema)
	activation := condition.NewActivation(&condition.Input{
		Arguments: json.RawMessage(`{"amount":99.5,"count":3,"currency":"EUR","ok":true,"to":["ada@example.com"],"path":"/srv/agent/a.txt"}`),
		Agent:     "bot", Skill: "ledger", Tool: "post_payment", Now: time.Date(2026, 11, 26, 9, 0, 0, 0, time.UTC),
	})
	for source, want := range map[string]bool{
		`args.amount <= 100.0 && args.currency == "EUR"`:                         true,
		`args.currency in ["USD", "GBP"] || args.count - 1 > 2`:                  true,
		`agent != "bot" && args.to.exists(a, a == "x")`:                          true, // the left side decides
		`args.memo == "x" && args.count > 3`:                                     true, // the right side decides
		`has(args.memo) || !args.ok`:                                             true,
		`args.path.startsWith("/srv/") && size(args.path) < 1000 + 5`:            true,
		`now.getHours("Europe/Berlin") < 8`:                                      true,
		`args.memo == "x"`:                                                       false, // missing
		`args.memo == "x" && args.count > 2`:                                     false,
		`args.to.exists(a, a == "x") && agent != "bot"`:                          false, // the loop may cost too much
		`args.count > 9223372036854775806 + args.count`:                          false, // an overflow
		`within(args.path, "/srv/agent") && args.currency.lowerAscii() == "eur"`: true,
		`principal == null && args.to.exists(b, b == "x")`:                       false,
		`args.count > 0 ? args.amount > 1.0 : args.currency == "EUR"`:            false,
		`args.to.exists(b, b == "x") || args.to.all(b, b == "")`:                 false,
	} {
		if got := mustCompile(t, schema, source).HasShortcut(activation); got != want {
			t.Errorf("%s has a shortcut: %t, want %t", source, got, want)
		}
	}
}
