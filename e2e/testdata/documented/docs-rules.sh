apply_world
cp "$TESTDATA/../../../docs/rules/"*.yaml .
holdpoint skill set files save_csv --grants
park_call rules
CALL=$(newest_pending id)
find_CALL() { echo "$CALL"; }
find_GRANT() { holdpoint grants list --json | grep -o '"id":"[^"]*' | head -1 | cut -d'"' -f4; }
find_body() { echo filename; }
