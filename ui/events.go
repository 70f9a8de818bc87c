package ui

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/holdpoint/holdpoint/ui/live"
)

// sessionCheck is the interval at which a stream checks its session. It also checks after any change of rights.
const sessionCheck = 30 * time.Second

// streamEvents signals changes to a dashboard. The page fetches the content itself, with all checks.
func (u *UI) streamEvents(w http.ResponseWriter, r *http.Request) {
	check, changed := u.login.Watch(r), u.login.Changed()
	if !check(r.Context()) {
		http.Error(w, "sign in first", http.StatusUnauthorized)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Accel-Buffering", "no") // of proxies
	stream := http.NewResponseController(w)
	signals, cancel := u.feed.Subscribe()
	defer cancel()
	session := time.NewTicker(sessionCheck)
	defer session.Stop()
	send := func(text string) bool {
		_, err := fmt.Fprint(w, text)
		return err == nil && stream.Flush() == nil
	}
	isOpen := func() bool {
		over := !check(r.Context())
		if over {
			send("event: end\ndata: {}\n\n")
		}
		return !over
	}
	for going := send("retry: 1000\n\n"); going; {
		select {
		case <-r.Context().Done():
			return
		case <-u.feed.Done():
			return
		case s := <-signals:
			going = send(pulseEvent(s))
		case <-changed:
			changed = u.login.Changed()
			going = isOpen()
		case <-session.C:
			going = isOpen()
		}
	}
}

func pulseEvent(s live.Signal) string {
	pulse := map[string]any{"state": s.State, "pending": s.Pending, "now": s.Now.UnixMilli()}
	if s.Viewers != nil {
		pulse["viewers"] = s.Viewers
	}
	if len(s.News) > 0 {
		pulse["news"] = s.News
	}
	data, err := json.Marshal(pulse)
	if err != nil {
		return ": " + err.Error() + "\n\n" // strings and numbers cannot fail
	}
	return "event: pulse\ndata: " + string(data) + "\n\n"
}
