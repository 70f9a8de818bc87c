find_ID() { newest_pending id; }
find_DIGEST() { newest_pending digest; }
ln -s "$TESTDATA/../../node_modules" node_modules
