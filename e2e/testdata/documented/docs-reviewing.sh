apply_world
for n in 1 2 3; do park_call "reviewing-$n"; done
find_ID() { newest_pending id; }
find_DIGEST() { newest_pending digest; }
