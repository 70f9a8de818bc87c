package postgres

import (
	"context"
	"syscall"
	"time"

	"github.com/holdpoint/holdpoint/internal/pause"
)

// superviseEvery is the interval of checks. A server is started again if two checks in a row do not find it: an operator may
// be restarting it.
const superviseEvery = 3 * time.Second

// superviseServer restarts the server if it dies while it is in use.
func (c *cluster) superviseServer(ctx context.Context) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.cancel = cancel
	c.supervisor.Go(func() {
		gone := false
		for pause.For(ctx, superviseEvery) == nil {
			pm, found, err := readPostmaster(c.pgData)
			up := err == nil && found && pm.isAlive()
			if !up && gone {
				c.restartServer(ctx)
			}
			gone = !up
		}
	})
}

// restartServer starts a server that is gone.
func (c *cluster) restartServer(ctx context.Context) {
	if err := waitLock(ctx, c.transition, syscall.LOCK_EX); err != nil {
		return // this process leaves the cluster
	}
	defer c.unlockTransition()
	c.log.Warn("embedded cluster: the server is gone, starting it", "dir", c.dir)
	if err := c.ensureRunning(ctx); err != nil {
		c.log.Error("embedded cluster: start", "dir", c.dir, "error", err)
	}
}
