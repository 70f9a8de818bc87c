package outbound

import (
	"context"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// hostLookUpTime bounds FindPublicHosts.
const hostLookUpTime = 3 * time.Second

// ListHTTPHosts returns the host names in URLs without https. An attacker who controls DNS can change their addresses.
func ListHTTPHosts(urls ...string) []string {
	var hosts []string
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" {
			continue
		}
		host := strings.ToLower(u.Hostname())
		if _, err := netip.ParseAddr(host); err != nil && host != "" && !IsLocalName(host) {
			hosts = append(hosts, host)
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// FindPublicHosts returns the hosts for which isPublic is true, see [IsPublicHost]. It asks about all of them within three seconds.
func FindPublicHosts(ctx context.Context, isPublic func(context.Context, string) bool, hosts ...string) map[string]bool {
	ctx, cancel := context.WithTimeout(ctx, hostLookUpTime)
	defer cancel()
	public := make([]bool, len(hosts))
	slots := make(chan struct{}, 16)
	var looking sync.WaitGroup
	for i, host := range hosts {
		looking.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			public[i] = isPublic(ctx, host)
		})
	}
	looking.Wait()
	found := map[string]bool{}
	for i, host := range hosts {
		if public[i] {
			found[host] = true
		}
	}
	return found
}
