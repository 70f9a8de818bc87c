package model

// bytesPerToken is a rough average.
const bytesPerToken = 4

// pictureTokens is a rough count for the size to which providers scale pictures.
const pictureTokens = 1500

// Estimate returns a rough usage of an exchange whose provider reported none, so that limits on tokens and cost hold there too.
func Estimate(r *Request, answer *Response) Usage {
	text, pictures := len(r.Instructions), 0
	for _, t := range r.Tools {
		text += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	for i := range r.Messages {
		t, p := countParts(r.Messages[i].Parts)
		text, pictures = text+t, pictures+p
	}
	output, _ := countParts(answer.Parts)
	return Usage{InputTokens: countTokens(text) + int64(pictures)*pictureTokens, OutputTokens: countTokens(output), Estimated: true}
}

func countTokens(bytes int) int64 { return int64((bytes + bytesPerToken - 1) / bytesPerToken) }

// countParts returns the bytes of all texts and the number of pictures.
func countParts(parts []Part) (text, pictures int) {
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
			t, n := countParts(p.Result.Parts)
			text, pictures = text+t, pictures+n
		}
		if p.Opaque != nil {
			text += len(p.Opaque.Value)
		}
	}
	return text, pictures
}
