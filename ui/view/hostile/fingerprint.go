package hostile

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"sync"
)

// fingerprintKey is the key of this process. It is never stored, so shown fingerprints cannot be guessed elsewhere.
var fingerprintKey = sync.OnceValue(func() []byte { //nolint:gochecknoglobals // one for all that is shown
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // never fails
	return key
})

// Fingerprint returns a short name for a text that reveals nothing about it. Within one process, equal texts have equal fingerprints. It
// has a key because a plain digest of a short text can be guessed.
func Fingerprint(text string) string {
	mac := hmac.New(sha256.New, fingerprintKey())
	_, _ = mac.Write([]byte(text)) // never fails
	return hex.EncodeToString(mac.Sum(nil))[:shownFingerprint]
}

// shownFingerprint is the number of digits of a fingerprint: enough to see that two values differ.
const shownFingerprint = 12
