package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	columns = 110 // of the terminal

	keyPause    = 25 * time.Millisecond
	linePause   = 60 * time.Millisecond
	promptPause = 900 * time.Millisecond
)

// recording is what a terminal shows, with the times at which it does.
type recording struct {
	now    time.Duration
	events []event
	lines  []line
}

// event is an output of the terminal.
type event struct {
	at   time.Duration
	text string
}

// line is a line of the screen, from the time at which it is complete.
type line struct {
	at    time.Duration
	text  string
	typed bool
}

// typeLine types a command or a comment after a prompt, one key after the other.
func (r *recording) typeLine(text string) {
	r.now += promptPause
	r.events = append(r.events, event{r.now, "$ "})
	for _, key := range text {
		r.now += keyPause
		r.events = append(r.events, event{r.now, string(key)})
	}
	r.addLines("$ "+text, true)
	r.events = append(r.events, event{r.now, "\r\n"})
}

// printText prints the output of a command.
func (r *recording) printText(text string) {
	r.now += promptPause / 2
	for part := range strings.SplitSeq(text, "\n") {
		r.now += linePause
		r.addLines(part, false)
		r.events = append(r.events, event{r.now, part + "\r\n"})
	}
}

// addLines adds a line, which is wrapped as a terminal does.
func (r *recording) addLines(text string, typed bool) {
	for utf8.RuneCountInString(text) > columns {
		head := string([]rune(text)[:columns])
		r.lines = append(r.lines, line{r.now, head, typed})
		text = text[len(head):]
	}
	r.lines = append(r.lines, line{r.now, text, typed})
}

// encodeCast returns the recording as an asciicast, version 2. The terminal is as high as the recording is long.
func (r *recording) encodeCast() ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(map[string]any{"version": 2, "width": columns, "height": len(r.lines) + 1, "title": "Holdpoint: a call waits for its approval"})
	for _, e := range r.events {
		if err == nil {
			err = encoder.Encode([]any{e.at.Seconds(), "o", e.text})
		}
	}
	return b.Bytes(), err
}

const (
	charWidth, lineHeight, margin = 7.25, 18, 14

	svgStyle = `text{font:12px ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;white-space:pre;fill:#1f2928;animation:show 1ms both}
.typed{fill:#0b5f60;font-weight:600}
rect{fill:#f5f7f6}
@keyframes show{from{opacity:0}}
@media(prefers-color-scheme:dark){text{fill:#e4ebe9}.typed{fill:#7fd3cd}rect{fill:#141a1a}}
@media(prefers-reduced-motion:reduce){text{animation:none}}`
)

// drawSVG draws the screen. Its lines appear one after the other.
func (r *recording) drawSVG() []byte {
	var b bytes.Buffer
	width, height := columns*charWidth+2*margin, len(r.lines)*lineHeight+2*margin
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%d" viewBox="0 0 %.0f %d" role="img">`+"\n", width, height, width, height)
	fmt.Fprintf(&b, "<title>A terminal: an agent's call waits, a reviewer approves it, and it is sent</title>\n<style>%s</style>\n<rect width=\"100%%\" height=\"100%%\" rx=\"8\"/>\n", svgStyle)
	for n, l := range r.lines {
		class := ""
		if l.typed {
			class = ` class="typed"`
		}
		fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\"%s style=\"animation-delay:%.2fs\">%s</text>\n", margin, margin+(n+1)*lineHeight-5, class, l.at.Seconds(), html.EscapeString(l.text))
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}
