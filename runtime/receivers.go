package runtime

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdpoint/holdpoint/internal/notify"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/receiver"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/runtime/callback"
)

const (
	// receiversTime bounds the look-up of all receivers' hosts.
	receiversTime = 15 * time.Second
	// receiversAtOnce is how many hosts are looked up at the same time.
	receiversAtOnce = 16
)

// ExamineReceivers returns how many webhooks and callbacks there are, and a text for each to which a server with these trusted
// hosts would send nothing. Nothing is sent.
func ExamineReceivers(ctx context.Context, db *postgres.DB, box *secret.Box, trustedHosts []string) (count int, refused []string, err error) {
	all, err := notify.Receivers(ctx, db.Pool(), box)
	if err != nil {
		return 0, nil, err
	}
	callbacks, err := callback.Receivers(ctx, db.Pool(), box)
	if err != nil {
		return 0, nil, err
	}
	all = append(all, callbacks...)
	ctx, cancel := context.WithTimeout(ctx, receiversTime)
	defer cancel()
	texts := make([]string, len(all))
	slots := make(chan struct{}, receiversAtOnce)
	var looking sync.WaitGroup
	for i, r := range all {
		looking.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if err := receiver.Examine(ctx, trustedHosts, r.Address); err != nil {
				texts[i] = fmt.Sprintf("%s: %s %s", r.Name, r.Host, err)
			}
		})
	}
	looking.Wait()
	return len(all), slices.DeleteFunc(texts, func(text string) bool { return text == "" }), nil
}
