find_ID() { newest_pending id; }
find_DIGEST() { newest_pending digest; }
