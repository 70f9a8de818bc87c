package review

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/holdpoint/holdpoint/approval"
)

// readSeen reads the measurements of the script before a decision, such as "7/7" arguments and the milliseconds. Without the script it returns
// nil: not measured. The caller counts the unusual arguments.
func readSeen(r *http.Request) *approval.Seen {
	rows, of, _ := strings.Cut(r.PostFormValue("seen"), "/")
	seen := approval.Seen{SecondStep: r.PostFormValue("confirmed") != ""}
	shown := 0
	if !readCount(r.PostFormValue("shown"), &shown) || !readCount(rows, &seen.Rows) || !readCount(of, &seen.Of) || seen.Rows > seen.Of {
		return nil
	}
	seen.Shown = time.Duration(shown) * time.Millisecond
	return &seen
}

// readCount reads a number of arguments or milliseconds.
func readCount(text string, n *int) (ok bool) {
	v, err := strconv.ParseUint(text, 10, 31)
	*n = int(v)
	return err == nil
}
