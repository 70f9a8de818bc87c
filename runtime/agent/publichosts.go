package agent

import (
	"context"
	"slices"

	"github.com/holdpoint/holdpoint/internal/outbound"
)

func (s *skillState) httpHosts() []string {
	if s == nil {
		return nil
	}
	return outbound.ListHTTPHosts(s.URL, s.API.Spec)
}

func (patch SkillPatch) httpHosts() []string {
	var urls []string
	for _, text := range []*string{patch.URL, patch.BaseURL, patch.Spec} {
		if text != nil {
			urls = append(urls, *text)
		}
	}
	return outbound.ListHTTPHosts(urls...)
}

// lookUpHosts returns the hosts that have public addresses only. Call it outside of transactions.
func (s *Service) lookUpHosts(ctx context.Context, hosts ...string) map[string]bool {
	return outbound.FindPublicHosts(ctx, s.isPublicHost, hosts...)
}

// publicHosts returns the hosts of a skill that must not lead to private addresses: those with public addresses when the skill
// first named them. before is nil for a new skill.
func (e *edit) publicHosts(before *skillRow, after *skillState) []string {
	var known, kept []string
	if before != nil {
		known, kept = outbound.ListHTTPHosts(before.URL), before.settings.PublicHosts
		if before.API != nil {
			known = append(known, outbound.ListHTTPHosts(before.API.Spec)...)
		}
	}
	return slices.DeleteFunc(after.httpHosts(), func(host string) bool {
		if slices.Contains(known, host) {
			return !slices.Contains(kept, host)
		}
		return !e.public[host]
	})
}
