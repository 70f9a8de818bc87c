package model

// bytesPerToken is what a token is of most texts, roughly.
const bytesPerToken = 4

// pictureTokens is what providers count for a picture of the size that they scale pictures to, roughly.
const pictureTokens = 1500

// Estimate is what an exchange took, roughly, of which its provider did not say it: limits on tokens and cost hold there, too.
func Estimate(r *Request, answer *Response) Usage {
	text, pictures := len(r.Instructions), 0
	for _, t := range r.Tools {
		text += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	for i := range r.Messages {
		t, p := sizes(r.Messages[i].Parts)
		text, pictures = text+t, pictures+p
	}
	said, _ := sizes(answer.Parts)
	return Usage{InputTokens: tokens(text) + int64(pictures)*pictureTokens, OutputTokens: tokens(said), Estimated: true}
}

func tokens(bytes int) int64 { return int64((bytes + bytesPerToken - 1) / bytesPerToken) }

// sizes are the bytes of all texts, and the number of pictures.
func sizes(parts []Part) (text, pictures int) {
	for i := range parts {
		p := &parts[i]
		if p.Text != nil {
			text += len(p.Text.Text)
		}
		if p.Image != nil {
			pictures++
		}
		if p.Call != nil {
			text += len(p.Call.Name) + len(p.Call.Arguments)
		}
		if p.Result != nil {
			t, n := sizes(p.Result.Parts)
			text, pictures = text+t, pictures+n
		}
		if p.Opaque != nil {
			text += len(p.Opaque.Value)
		}
	}
	return text, pictures
}
