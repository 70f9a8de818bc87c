// Package buildtag owns the error of a build without the tag "cloud". The tag adds the buckets of Google and Azure, and
// Google Cloud KMS.
package buildtag

// MissingError says that this build cannot use a URL, because it was built without the tag "cloud".
type MissingError struct {
	Scheme string // of the URL
}

// Error implements error.
func (e *MissingError) Error() string {
	return "this build of holdpoint has no client for " + e.Scheme + ":// URLs: " + remedy
}

const remedy = "use a build with the tag cloud (go build -tags cloud ./cmd/holdpoint)"

// Advice is the remedy for a [MissingError], for operators.
const Advice = remedy + ", or change the setting"
