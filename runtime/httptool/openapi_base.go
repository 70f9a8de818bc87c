package httptool

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/holdpoint/holdpoint/internal/plain"
)

// bases finds the base URL of operations.
type bases struct {
	doc       *document
	origin    string // the URL that the document was read from; empty: it was given by value
	operators string // the operator's base URL; empty: the document's

	known bool
	url   string // the document's first server, as an absolute URL
	err   error
}

// document is the document's base URL, or why it cannot be used. A document that names servers only at its operations has that of the first.
func (b *bases) document() (string, error) {
	if !b.known {
		b.known = true
		b.url, b.err = b.server(b.doc.servers())
		if b.url == "" && b.err == nil {
			b.url, b.err = b.resolve("/")
		}
		if b.err != nil {
			b.err = fmt.Errorf("%w: set base_url", b.err)
		}
	}
	return b.url, b.err
}

// servers are those of the document, or else the first that one of its paths or operations names.
func (d *document) servers() *value {
	if servers := d.root.get("servers"); len(servers.all()) > 0 {
		return servers
	}
	paths := d.root.get("paths").all()
	for i := range paths {
		item, err := d.follow(&paths[i].value)
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

// of is an operation's base URL; empty: the skill's.
func (b *bases) of(o *operation) (string, error) {
	own, err := b.server(o.object.get("servers"))
	if own == "" && err == nil {
		own, err = b.server(o.item.get("servers"))
	}
	if err != nil {
		return "", err
	}
	whole, err := b.document()
	switch {
	case own == "" && b.operators != "":
		return "", nil
	case own == "":
		return whole, err
	case own == whole && b.operators != "":
		return "", nil
	case b.operators != "":
		return "", fmt.Errorf("the document names another server for it, %s, and base_url is that of the others", plain.Line(own, 200))
	}
	return own, nil
}

// server is the first of some servers, its variables by their defaults. Empty: there is none.
func (b *bases) server(servers *value) (string, error) {
	if !servers.is('[') || len(servers.members) == 0 {
		return "", nil
	}
	first := &servers.members[0].value
	address := first.get("url").str()
	b.doc.spend(1 + len(address))
	var missing error
	// Once: what stands in braces in a default is no variable.
	filled := placeholder.ReplaceAllStringFunc(address, func(found string) string {
		name := found[1 : len(found)-1]
		variable := first.get("variables").get(name).get("default")
		if variable == nil {
			missing = fmt.Errorf("the document's server %s has no default for {%s}", plain.Line(address, 200), plain.Line(name, 50))
			return ""
		}
		return cut(variable.text, maxPath+1)
	})
	switch {
	case missing != nil:
		return "", missing
	case len(address) > maxPath || len(filled) > maxPath:
		return "", fmt.Errorf("the document's server %s is longer than %d bytes", plain.Line(address, 200), maxPath)
	}
	return b.resolve(filled)
}

// resolve makes an absolute base URL of what the document says, and refuses one that it has no say in.
func (b *bases) resolve(address string) (string, error) {
	shown := plain.Line(address, 200)
	u, err := url.Parse(address)
	if err != nil {
		return "", fmt.Errorf("the document's server %s is no URL", shown)
	}
	var own *url.URL
	if b.origin != "" {
		if own, err = url.Parse(b.origin); err != nil {
			return "", errors.New("spec: expected a URL")
		}
		u = own.ResolveReference(u)
	}
	switch {
	case u.Scheme == "" || u.Host == "":
		return "", fmt.Errorf("the document names %s as its server, which is no absolute URL", shown)
	case u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("the document names %s as its server: expected http or https", shown)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return "", fmt.Errorf("the document names %s as its server: expected no user, query or fragment in it", shown)
	case own != nil && b.operators == "" && originOf(u) != originOf(own):
		return "", fmt.Errorf("the document names %s as its server, another origin than the document's", shown)
	}
	return strings.TrimRight(u.String(), "/"), nil
}

// maxOrigins bounds of how many servers of one document it is remembered where they are.
const maxOrigins = 100

// origins are those of the servers of a document that was given by value and of its operations, in its order: where its requests go without a base URL
// of the operator's.
func (d *document) origins() []string {
	b := bases{doc: d}
	whole, _ := b.document() // what is wrong with it is told where tools are made of it
	var found []string
	add := func(base string) {
		u, err := url.Parse(base)
		if err != nil || base == "" || len(found) >= maxOrigins {
			return
		}
		if origin := originOf(u); !slices.Contains(found, origin) {
			found = append(found, origin)
		}
	}
	add(whole)
	for _, o := range d.operations() {
		if own, err := b.of(o); err == nil && own != whole {
			add(own)
		}
	}
	return found
}

// known refuses a server of a document that was given by value of which it is not remembered that the document names it.
func (b *builder) known(base string) error {
	api := b.server.API
	if base == "" || api == nil || api.Document == "" {
		return nil
	}
	if u, err := url.Parse(base); err != nil || !slices.Contains(api.Origins, originOf(u)) {
		return fmt.Errorf("its server %s is none of the first %d that the document names", plain.Line(base, 200), maxOrigins)
	}
	return nil
}

// originOf is scheme, host and port of a URL (RFC 6454, section 4).
func originOf(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[strings.ToLower(u.Scheme)]
	}
	return strings.ToLower(u.Scheme) + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}
