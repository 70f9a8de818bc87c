package hostile

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"sync"
)

// fingerprintKey is this process's own: it is never stored, and nothing that was shown can be tried against it
// elsewhere.
var fingerprintKey = sync.OnceValue(func() []byte { //nolint:gochecknoglobals // one for all that is shown
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // never fails
	return key
})

// Fingerprint tells texts apart without telling anything of them. Within one process equal texts have equal
// fingerprints; a digest without a key would give short codes away to whoever tries them all.
func Fingerprint(text string) string {
	mac := hmac.New(sha256.New, fingerprintKey())
	_, _ = mac.Write([]byte(text)) // never fails
	return hex.EncodeToString(mac.Sum(nil))[:shownFingerprint]
}

// shownFingerprint is how many of its digits are shown: enough to see that two values differ.
const shownFingerprint = 12
