package ui

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/holdpoint/holdpoint/runtime/agent"
)

// submit hands a form to the registry. save returns where to go on; it is told what this side found wrong, so that the
// registry finds the rest and saves nothing. again shows the form as it was sent: with what is wrong, or, with the
// status 409, with what somebody else changed since it was made.
func (u *UI) submit(w http.ResponseWriter, r *http.Request, wrong faults, save func(known faults) (string, error), again func(int, faults)) {
	next, err := save(wrong)
	known, ok := faultsOf(err)
	switch {
	case err == nil:
		http.Redirect(w, r, next, http.StatusSeeOther)
	case errors.Is(err, agent.ErrChanged):
		again(http.StatusConflict, nil)
	case ok:
		again(http.StatusUnprocessableEntity, known)
	default:
		u.fail(w, r, err)
	}
}

// noRevision is one that nothing ever has.
const noRevision = -1

// revisionOf is the revision of what a form was made for. Without one it is for none.
func revisionOf(r *http.Request) *int64 {
	revision, err := strconv.ParseInt(r.PostFormValue("revision"), 10, 64)
	if err != nil {
		revision = noRevision
	}
	return &revision
}

func revisionText(revision int64) string { return strconv.FormatInt(revision, 10) }
