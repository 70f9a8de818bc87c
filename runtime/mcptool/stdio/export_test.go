package stdio

import "io"

// Line is a line of a child's output, or the id that one had that was too long.
type Line struct {
	Text, ID string
	TooLarge bool
}

// ReadLines reads a child's output to its end.
func ReadLines(source io.Reader, limit int64) []Line {
	r := newFrameReader(source, limit)
	var lines []Line
	for {
		f, err := r.nextFrame()
		if err != nil {
			return lines
		}
		lines = append(lines, Line{Text: string(f.data), ID: f.id, TooLarge: f.tooLarge})
	}
}
