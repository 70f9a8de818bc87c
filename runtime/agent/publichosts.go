package agent

import (
	"context"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdpoint/holdpoint/internal/outbound"
)

// hostLookUpTime bounds the lookup of all hosts of one change.
const hostLookUpTime = 3 * time.Second

// httpHosts returns the host names in URLs without https. An attacker who controls DNS can change their addresses.
func httpHosts(urls ...string) []string {
	var hosts []string
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" {
			continue
		}
		host := strings.ToLower(u.Hostname())
		if _, err := netip.ParseAddr(host); err != nil && host != "" && !outbound.IsLocalName(host) {
			hosts = append(hosts, host)
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

func (s *skillState) httpHosts() []string {
	if s == nil {
		return nil
	}
	return httpHosts(s.URL, s.API.Spec)
}

func (patch SkillPatch) httpHosts() []string {
	var urls []string
	for _, text := range []*string{patch.URL, patch.BaseURL, patch.Spec} {
		if text != nil {
			urls = append(urls, *text)
		}
	}
	return httpHosts(urls...)
}

// lookUpHosts returns the hosts that have public addresses only. Call it outside of transactions.
func (s *Service) lookUpHosts(ctx context.Context, hosts ...string) map[string]bool {
	ctx, cancel := context.WithTimeout(ctx, hostLookUpTime)
	defer cancel()
	public := make([]bool, len(hosts))
	slots := make(chan struct{}, 16)
	var looking sync.WaitGroup
	for i, host := range hosts {
		looking.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			public[i] = s.isPublicHost(ctx, host)
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

// publicHosts returns the hosts of a skill that must not lead to private addresses: those with public addresses when the skill
// first named them. before is nil for a new skill.
func (e *edit) publicHosts(before *skillRow, after *skillState) []string {
	var known, kept []string
	if before != nil {
		known, kept = httpHosts(before.URL), before.settings.PublicHosts
		if before.API != nil {
			known = append(known, httpHosts(before.API.Spec)...)
		}
	}
	return slices.DeleteFunc(after.httpHosts(), func(host string) bool {
		if slices.Contains(known, host) {
			return !slices.Contains(kept, host)
		}
		return !e.public[host]
	})
}
