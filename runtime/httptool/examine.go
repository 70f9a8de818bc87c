package httptool

import (
	"context"
	"fmt"
	"strings"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// CheckDocument tells the origins (RFC 6454) of the servers that an OpenAPI document names, or what is wrong with it as a whole. One of which single
// operations cannot be used is fine.
func CheckDocument(text []byte) (origins []string, err error) {
	defer catchStop(&err)
	doc, err := readDocument(context.Background(), text)
	if err != nil {
		return nil, err
	}
	return doc.origins(), nil
}

// Examine tells what an OpenAPI document offers. origin is the URL that it was read from; empty: it was given by value. Nothing is fetched. An error
// is what is wrong with the document as a whole, in plain words.
func Examine(ctx context.Context, text []byte, origin string) (tool.Examination, error) {
	return examine(ctx, text, origin, Config{}.withDefaults().Limits)
}

// Examine fetches the OpenAPI document at a URL that an operator named, and tells what it offers. Errors are *[tool.Failure].
func (s *Source) Examine(ctx context.Context, url string) (tool.Examination, error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.Limits.List)
	defer cancel()
	text, _, failure := s.fetch(ctx, url, nil, validators{})
	if failure != nil {
		return tool.Examination{}, failure
	}
	return s.examined(ctx, text, url)
}

// ExamineDocument tells what an OpenAPI document that was given by value offers. Errors are *[tool.Failure].
func (s *Source) ExamineDocument(ctx context.Context, text []byte) (tool.Examination, error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.Limits.List)
	defer cancel()
	return s.examined(ctx, text, "")
}

func (s *Source) examined(ctx context.Context, text []byte, origin string) (tool.Examination, error) {
	err := s.documents.lock(ctx)
	var found tool.Examination
	if err == nil {
		defer s.documents.unlock()
		found, err = examine(ctx, text, origin, s.config.Limits)
	}
	switch {
	case err == nil:
		return found, nil
	case ctx.Err() != nil:
		return found, failed(tool.TransportFailure, err, "reading the OpenAPI document took too long, or was given up")
	}
	return found, failed(tool.ProtocolFailure, err, "%s", reason(err))
}

func examine(ctx context.Context, text []byte, origin string, limits Limits) (_ tool.Examination, err error) {
	defer catchStop(&err)
	doc, err := readDocument(ctx, text)
	if err != nil {
		return tool.Examination{}, err
	}
	info := doc.root.get("info")
	found := tool.Examination{
		OpenAPI: cut(doc.version, 20), Title: cut(info.get("title").str(), maxTitle), Version: cut(info.get("version").str(), maxTitle),
		Description: cut(info.get("description").str(), maxDescription), SecuritySchemes: securitySchemes(doc), Servers: []string{},
	}
	// As if the operator had set a base URL: whether one is needed is told once, and not by each operation.
	b := newBuilder(doc, &tool.Server{URL: "https://base.invalid", API: &tool.API{Spec: origin}}, &limits)
	servers := doc.root.get("servers").all()
	for i := range servers {
		one := value{kind: '[', members: servers[i : i+1]}
		if address, err := b.base.server(&one); err == nil && address != "" && len(found.Servers) < maxServers {
			found.Servers = append(found.Servers, cut(address, maxAddress))
		}
	}
	base := bases{doc: doc, origin: origin}
	if found.BaseURL, err = base.document(); err != nil {
		found.BaseURLReason = reason(err)
	}
	size := 0
	for _, o := range b.all {
		operation := b.examine(o)
		size += len(operation.InputSchema) + len(operation.OutputSchema) + len(operation.Path) + len(operation.Skipped) + 500
		if size > limits.ToolBytes {
			return found, fmt.Errorf("the operations of the document are together larger than %d MiB", limits.ToolBytes>>20)
		}
		found.Operations = append(found.Operations, operation)
	}
	return found, nil
}

const (
	maxServers = 50
	maxAddress = 2048
	maxTags    = 50
)

// examine tells of one operation.
func (b *builder) examine(o *operation) tool.Operation {
	found := tool.Operation{
		Name: o.name, OperationID: cut(o.id(), maxAddress), Method: o.method, Path: cut(o.path, maxAddress),
		Summary: title(o.object.get("summary").str()), ReadOnly: tool.ReadOnlyMethod(o.method), Deprecated: o.object.get("deprecated").isTrue(),
	}
	for _, tag := range o.object.get("tags").strings() {
		if len(found.Tags) < maxTags {
			found.Tags = append(found.Tags, cut(tag, maxTitle))
		}
	}
	built, err := b.build(o)
	if err != nil {
		found.Skipped = reason(err)
		return found
	}
	found.InputSchema, found.OutputSchema = built.definition.InputSchema, built.definition.OutputSchema
	found.NoOutputSchema = plain.Line(built.noOutput, maxReason)
	return found
}

// securitySchemes are those that a document declares.
func securitySchemes(doc *document) []tool.SecurityScheme {
	list := []tool.SecurityScheme{}
	declared := doc.root.get("components").get("securitySchemes")
	for i := range declared.all() {
		m := &declared.members[i]
		v, err := doc.follow(&m.value)
		if err != nil || !v.is('{') || len(list) == maxServers {
			continue
		}
		scheme := tool.SecurityScheme{
			Name: cut(m.name, maxTitle), Type: cut(v.get("type").str(), maxTitle), Description: cut(v.get("description").str(), maxDescription),
			In: cut(v.get("in").str(), maxTitle), Parameter: cut(v.get("name").str(), maxTitle), Scheme: cut(strings.ToLower(v.get("scheme").str()), maxTitle),
			OpenIDConnectURL: cut(v.get("openIdConnectUrl").str(), maxAddress),
		}
		flows := v.get("flows").all()
		for j := range flows {
			f := &flows[j]
			flow := tool.OAuthFlow{
				Type:             cut(f.name, maxTitle),
				AuthorizationURL: cut(f.value.get("authorizationUrl").str(), maxAddress), TokenURL: cut(f.value.get("tokenUrl").str(), maxAddress),
			}
			for _, scope := range f.value.get("scopes").all() {
				flow.Scopes = append(flow.Scopes, cut(scope.name, maxTitle))
			}
			scheme.Flows = append(scheme.Flows, flow)
		}
		list = append(list, scheme)
	}
	return list
}
