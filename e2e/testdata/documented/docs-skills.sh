apply_world
holdpoint agent delete billing
holdpoint skill delete ledger
PERSON=$(invite_person ada)
OTHER=$(invite_person ben)
find_PERSON() { echo "$PERSON"; }
find_OTHER() { echo "$OTHER"; }
export TEAM_KEY=secret
echo "Be careful." > told.md
find_post_entry() { echo list_invoices; }
find_read_entry() { echo list_invoices; }
find_SKILL() { echo inbox; }
find_NAME() { echo inbox; }
find_TOOL() { echo list_invoices; }
find_ID() { holdpoint connections list --json | grep -o '"id":"[^"]*' | head -1 | cut -d'"' -f4; }
