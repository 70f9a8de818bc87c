package postgres

import (
	"context"
	"syscall"
	"time"

	"github.com/holdpoint/holdpoint/internal/pause"
)

// superviseEvery is how often the server is looked after, and how long a server that
// is gone stays gone before it is started again: someone may be restarting it.
const superviseEvery = 3 * time.Second

// supervise starts the server again when it died while it was in use, until leave.
func (c *cluster) supervise(ctx context.Context) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.cancel = cancel
	c.supervisor.Go(func() {
		gone := false
		for pause.For(ctx, superviseEvery) == nil {
			pm, found, err := readPostmaster(c.pgData)
			up := err == nil && found && pm.alive()
			if !up && gone {
				c.revive(ctx)
			}
			gone = !up
		}
	})
}

func (c *cluster) revive(ctx context.Context) {
	if err := waitLock(ctx, c.transition, syscall.LOCK_EX); err != nil {
		return // we are leaving
	}
	defer c.unlock()
	c.log.Warn("embedded cluster: the server is gone, starting it", "dir", c.dir)
	if err := c.ensureRunning(ctx); err != nil {
		c.log.Error("embedded cluster: start", "dir", c.dir, "error", err)
	}
}
