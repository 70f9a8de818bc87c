package mcptool

import (
	"context"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// exchange sends one request, as a line of its own.
func (p *stdioPeer) exchange(ctx context.Context, r *request) outcome {
	defer p.asked.begin(r, p.agreed)()
	id := p.lastID.Add(1)
	noteID(ctx, id)
	answer := make(chan reply, 1)
	p.mu.Lock()
	p.waiting[id] = answer
	p.mu.Unlock()
	defer p.abandon(id)

	noise := p.noise.Load()
	m := newMessage(r.encode(id, p.agreed.metaOf(r)))
	if r.confirm != nil {
		// A database that is away holds up this request alone. The writer, which asks once more, is shared.
		if err := r.confirm(ctx); err != nil {
			return failed(tool.NotConfirmed(err, r.what))
		}
		m.confirm, m.refused = func() error { return r.confirm(ctx) }, make(chan struct{})
	}
	select {
	case p.queue <- m:
	case <-p.gone:
		return p.lost(m, r, noise)
	case <-ctx.Done():
		return failed(tool.Ended(ctx, tool.EffectNone, r.what))
	}
	select {
	case got := <-answer:
		return p.answered(got, r)
	case <-m.refused:
		return failed(tool.NotConfirmed(m.err, r.what))
	case <-p.gone:
		select {
		case got := <-answer: // it came first
			return p.answered(got, r)
		default:
			return p.lost(m, r, noise)
		}
	case <-ctx.Done():
		return p.gaveUp(ctx, m, id, r, noise)
	}
}

func (p *stdioPeer) abandon(id int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiting, id)
}

func (p *stdioPeer) answered(got reply, r *request) outcome {
	switch {
	case got.tooLarge != nil:
		return failed(protocolFailure(got.tooLarge, errTooLarge, "%s: the answer is larger than %d bytes", r.what, r.limit))
	case got.envelope.isError():
		return failed(rpcFailure(got.envelope.err))
	case int64(len(got.envelope.result)) > r.limit:
		return failed(protocolFailure(got.envelope.result, errTooLarge, "%s: the answer is larger than %d bytes", r.what, r.limit))
	}
	return outcome{result: got.envelope.result}
}

// unsent reports whether certainly no byte of a message was written, and keeps
// it that way.
func (m *message) unsent() bool {
	if m.state.CompareAndSwap(queued, withdrawn) || m.state.Load() == withdrawn {
		return true
	}
	select {
	case <-m.done:
		return m.err != nil && m.bytes == 0
	default: // being written
		return false
	}
}

// failure is why writing a message failed, if it did.
func (m *message) failure() error {
	select {
	case <-m.done:
		return m.err
	default:
		return nil
	}
}

// lost is the outcome of a request whose server went away.
func (p *stdioPeer) lost(m *message, r *request, noise int64) outcome {
	if m.unsent() {
		out := failed(tool.BrokeOff(tool.EffectNone, m.failure(), "%s: not sent, for the server's process takes no more input%s", r.what, p.child.lastWords()))
		out.unsent = true
		return out
	}
	how := errPeerClosed.Error()
	if !p.closing.Load() {
		how = p.child.ending()
	}
	return failed(tool.BrokeOff(tool.EffectPossible, m.failure(), "%s: no answer came: %s%s", r.what, how, p.noiseSince(noise)))
}

// gaveUp is the outcome of a request that was waited for no longer.
func (p *stdioPeer) gaveUp(ctx context.Context, m *message, id int64, r *request, noise int64) outcome {
	if m.unsent() {
		return failed(tool.Ended(ctx, tool.EffectNone, r.what+": the server reads nothing"))
	}
	p.post(cancelled(id))
	f := tool.Ended(ctx, tool.EffectPossible, r.what)
	if said := p.noiseSince(noise); said != "" {
		f.Kind = tool.ProtocolFailure
		f.Message += said
		f.Raw = tool.Evidence([]byte(*p.last.Load()))
	}
	return failed(f)
}

// noiseSince tells of lines that were not MCP and came since the count was n.
func (p *stdioPeer) noiseSince(n int64) string {
	text := p.last.Load()
	if p.noise.Load() == n || text == nil {
		return ""
	}
	return "; meanwhile the server wrote what is not MCP: " + *text
}
