package openapi

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/httptool/setting"
)

// baseURLs finds the base URLs of operations.
type baseURLs struct {
	doc      *document
	spec     string // the URL that the document was read from; empty: it was given by value
	operator string // the operator's base URL; empty: the document's

	isResolved bool
	url        string // the document's first server, as an absolute URL
	err        error
}

// documentBase returns the base URL of the document. If only operations name servers, it is the first of these.
func (b *baseURLs) documentBase() (string, error) {
	if !b.isResolved {
		b.isResolved = true
		b.url, b.err = b.serverURL(b.doc.findServers())
		if b.url == "" && b.err == nil {
			b.url, b.err = b.resolveURL("/")
		}
		if b.err != nil {
			b.err = fmt.Errorf("%w: set base_url", b.err)
		}
	}
	return b.url, b.err
}

// findServers returns the servers of the document, or else of the first path or operation that has any.
func (d *document) findServers() *value {
	if servers := d.root.get("servers"); len(servers.all()) > 0 {
		return servers
	}
	paths := d.root.get("paths").all()
	for i := range paths {
		item, err := d.followRef(&paths[i].value)
		if err != nil {
			continue
		}
		d.spend(len(item.all()))
		for j := range item.all() {
			servers := item.members[j].value.get("servers")
			if item.members[j].name == "servers" {
				servers = &item.members[j].value
			}
			if len(servers.all()) > 0 {
				return servers
			}
		}
	}
	return nil
}

// baseOf returns the base URL of an operation. Empty: the skill's.
func (b *baseURLs) baseOf(o *operation) (string, error) {
	own, err := b.serverURL(o.object.get("servers"))
	if own == "" && err == nil {
		own, err = b.serverURL(o.item.get("servers"))
	}
	if err != nil {
		return "", err
	}
	whole, err := b.documentBase()
	switch {
	case own == "" && b.operator != "":
		return "", nil
	case own == "":
		return whole, err
	case own == whole && b.operator != "":
		return "", nil
	case b.operator != "":
		return "", fmt.Errorf("the document names another server for it, %s, and base_url is that of the others", plain.Line(own, 200))
	}
	return own, nil
}

// serverURL returns the first of some servers, with the defaults of its variables. Empty: there is none.
func (b *baseURLs) serverURL(servers *value) (string, error) {
	if !servers.is('[') || len(servers.members) == 0 {
		return "", nil
	}
	first := &servers.members[0].value
	address := first.get("url").str()
	b.doc.spend(1 + len(address))
	var missing error
	// One pass: braces in a default are not variables.
	filled := placeholder.ReplaceAllStringFunc(address, func(found string) string {
		name := found[1 : len(found)-1]
		variable := first.get("variables").get(name).get("default")
		if variable == nil {
			missing = fmt.Errorf("server %s: must have a default for {%s}", plain.Line(address, 200), plain.Line(name, 50))
			return ""
		}
		return truncateText(variable.text, maxPath+1)
	})
	switch {
	case missing != nil:
		return "", missing
	case len(address) > maxPath || len(filled) > maxPath:
		return "", fmt.Errorf("server %s: must be at most %d bytes", plain.Line(address, 200), maxPath)
	}
	return b.resolveURL(filled)
}

// resolveURL returns the absolute form of a server's URL, and refuses URLs that a document may not choose.
func (b *baseURLs) resolveURL(address string) (string, error) {
	shown := plain.Line(address, 200)
	u, err := url.Parse(address)
	if err != nil {
		return "", fmt.Errorf("server %s: must be a URL", shown)
	}
	var own *url.URL
	if b.spec != "" {
		if own, err = url.Parse(b.spec); err != nil {
			return "", errors.New("spec: must be a URL")
		}
		u = own.ResolveReference(u)
	}
	switch {
	case u.Scheme == "" || u.Host == "":
		return "", fmt.Errorf("server %s: must be an absolute URL", shown)
	case u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("server %s: must be an http or https URL", shown)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return "", fmt.Errorf("server %s: must have no user, query or fragment", shown)
	case own != nil && b.operator == "" && setting.OriginOf(u) != setting.OriginOf(own):
		return "", fmt.Errorf("server %s: must have the origin of the document", shown)
	}
	return strings.TrimRight(u.String(), "/"), nil
}

// maxOrigins bounds the origins of one document.
const maxOrigins = 100

// listOrigins returns the origins of the servers of a document that was given by value, and of its operations, in document order. Without an
// operator's base URL requests go there.
func (d *document) listOrigins() []string {
	b := baseURLs{doc: d}
	whole, _ := b.documentBase() // Define reports the error
	var found []string
	add := func(base string) {
		u, err := url.Parse(base)
		if err != nil || base == "" || len(found) >= maxOrigins {
			return
		}
		if origin := setting.OriginOf(u); !slices.Contains(found, origin) {
			found = append(found, origin)
		}
	}
	add(whole)
	for _, o := range d.listOperations() {
		if own, err := b.baseOf(o); err == nil && own != whole {
			add(own)
		}
	}
	return found
}

// checkServer refuses a server that is not among the recorded origins of a document that was given by value.
func (b *builder) checkServer(base string) error {
	api := b.server.API
	if base == "" || api == nil || api.Document == "" {
		return nil
	}
	if u, err := url.Parse(base); err != nil || !slices.Contains(api.Origins, setting.OriginOf(u)) {
		return fmt.Errorf("its server %s is none of the first %d that the document names", plain.Line(base, 200), maxOrigins)
	}
	return nil
}
