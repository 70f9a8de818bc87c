export HOLDPOINT_ENCRYPTION_KEY=$(holdpoint keyset new)
RITA=$(invite_person rita)
find_FILE() { mktemp -u; }
find_HOLD() { holdpoint holds list --json | grep -o '"id":"[^"]*' | head -1 | cut -d'"' -f4; }
find_PERSON() { echo "$RITA"; }
