package view

func windowTitle(p Page) string {
	title := p.Title + " · Holdpoint"
	if p.Pending > 0 {
		return "(" + thousands(p.Pending) + ") " + title
	}
	return title
}

func (p Page) favicon() string {
	if p.Pending > 0 {
		return p.Assets.MarkWaiting
	}
	return p.Assets.Mark
}
