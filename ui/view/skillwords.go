package view

// skillYAML and agentYAML are how holdpoint.yaml declares the first of each.
const (
	skillYAML = `skills:
  - name: files
    transport: http
    url: http://127.0.0.1:3001/mcp
    auto_approve: false   # every call waits for a reviewer
`
	agentYAML = `agents:
  - name: billing
    skills:
      - files                           # all its tools
      - {skill: notes, tools: [search]} # only these
`
)

// barHeight is that of a bar in a strip of 40.
func barHeight(b StripBar) int {
	switch {
	case b.Failed > 0:
		return 40
	case b.Succeeded > 0:
		return 22
	}
	return 2
}

func barClass(b StripBar) string {
	switch {
	case b.Failed > 0 && b.Succeeded > 0:
		return "look-unknown"
	case b.Failed > 0:
		return "look-failed"
	case b.Succeeded > 0:
		return "look-done"
	}
	return "rest"
}

// barWords tell a bar's story; times are in UTC, since nothing changes them there.
func barWords(b StripBar) string {
	from := b.From.UTC().Format("2 Jan 15:04 UTC")
	if b.Succeeded+b.Failed == 0 {
		return from + ": not asked"
	}
	return from + ": answered " + thousands(b.Succeeded) + ", failed " + thousands(b.Failed)
}
