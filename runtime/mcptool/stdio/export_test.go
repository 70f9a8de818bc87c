package stdio

import "io"

// Line is a line of a child's output, or the id of a line that was too long.
type Line struct {
	Text, ID string
	TooLarge bool
}

// ReadLines reads all of a child's output.
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
