package guards

import (
	"github.com/a-h/templ"

	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// Guard is a coding agent on a machine.
type Guard struct {
	Host, Machine string
	State         view.Badge
	Problems      []hostile.Value
	Bypassed      templ.Component // nil: no call ran without a release
	Facts         []view.Fact
	Forget        string // URL of the form; empty: the reader may not
}
