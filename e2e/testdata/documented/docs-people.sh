apply_world
NOOR=$(invite_person noor)
find_ID() { echo "$NOOR"; }
