package login

import "net/url"

// ProveURL is the page on which people who are signed in prove again who they are. It leads on to next.
func ProveURL(next string) string { return againPath + "?next=" + url.QueryEscape(localPath(next)) }
