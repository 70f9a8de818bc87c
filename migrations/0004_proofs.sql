-- identity: a provider's word that somebody is signed in may be hours old, and it may not say how old: null then, and
-- never fresh. Sessions from before, of which that was not asked, count as such.
ALTER TABLE person_sessions
    ALTER COLUMN authenticated_at DROP NOT NULL,
    ALTER COLUMN authenticated_at DROP DEFAULT,
    ADD COLUMN bootstrap_hash bytea;  -- of the bootstrap token by which it was begun, and with which it ends
UPDATE person_sessions SET authenticated_at = NULL WHERE method = 'oidc';

-- Which bootstrap token began these is not known any more.
UPDATE person_sessions SET revoked_at = holdpoint_now() WHERE method = 'token' AND token_id IS NULL AND revoked_at IS NULL;
