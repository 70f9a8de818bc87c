package search

import "github.com/holdpoint/holdpoint/ui/text"

// Results are the results of a search.
type Results struct {
	Text   string // that was searched for
	Dialog bool   // without the page around it
	NoCall bool   // the text is an id, but not of a call that was found
	List   []Result
}

func (r *Results) add(kind text.Message, url, name, note string) {
	r.List = append(r.List, Result{Kind: kind, URL: url, Name: name, Note: note})
}

// Result is something to open or to do.
type Result struct {
	Kind text.Message
	URL  string
	Name string       // from outside
	Note string       // from outside; tells equal names apart
	Word text.Message // of our own, instead of Name
	Do   string       // an action of the script; empty: the address is opened
	Copy string       // the text that the action copies
}
