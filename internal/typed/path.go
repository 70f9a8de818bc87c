package typed

import (
	"strings"
)

// PathValue is the path of a file.
type PathValue struct {
	Resolved   string // without . and .. and their encodings, or "" if it is the same
	LeavesRoot bool   // it leads out of the folder where it begins
}

// longPath is the number of bytes of the longest text that may be a path.
const longPath = 4096

func (m member) recognizePath(v *Value, text string, _ int) bool {
	if len(text) > longPath || strings.ContainsAny(text, "\n\r\t<>|\"") {
		return false
	}
	drive := len(text) > 2 && isLetter(text[0]) && text[1] == ':' && (text[2] == '\\' || text[2] == '/')
	rooted := drive || strings.HasPrefix(text, "/") || strings.HasPrefix(text, "~/") || strings.HasPrefix(text, "./") || strings.HasPrefix(text, `\\`)
	decoded := decodePath(text)
	inside := strings.ContainsAny(decoded, `/\`)
	spaced := strings.Contains(text, " ")
	isPath := rooted && (!spaced || m.isNamed(pathWords)) && len(text) > 1 || inside && m.isNamed(pathWords) && !strings.Contains(text, ", ") || hasParent(decoded) && !spaced
	if !isPath {
		return false
	}
	resolved := resolvePath(text)
	value := &PathValue{LeavesRoot: resolved.Left}
	if resolved.Changed {
		value.Resolved = resolved.Clean
		v.warnAboutPath(text, resolved)
	}
	v.Kind, v.Path = Path, value
	at := strings.LastIndexAny(strings.TrimRight(text, `/\`), `/\`) + 1
	v.Spans = append(v.Spans, Span{ClassPlain, text[:at]}, Span{ClassStrong, text[at:]})
	return true
}

func (v *Value) warnAboutPath(text string, r resolvedPath) {
	switch {
	case r.Left:
		v.addWarning(PathLeavesRoot, text, r.Clean)
	case r.Parents:
		v.addWarning(PathTraversal, text, r.Clean)
	}
}

// hasParent reports whether .. is a part of a path.
func hasParent(path string) bool {
	for at := 0; ; {
		i := strings.Index(path[at:], "..")
		if i < 0 {
			return false
		}
		from, to := at+i, at+i+2
		if (from == 0 || strings.ContainsRune(`/\=&?#`, rune(path[from-1]))) && (to == len(path) || path[to] == '/' || path[to] == '\\') && len(path) > 2 {
			return true
		}
		at = from + 1
	}
}

// decodePath decodes dots, slashes and percent signs of a path, also if they are encoded several times, and overlong UTF-8.
func decodePath(path string) string {
	if !strings.Contains(path, "%") {
		return path
	}
	for range maxDecoded {
		decoded := pathEncodings.Replace(path)
		if decoded == path {
			break
		}
		path = decoded
	}
	return path
}

var pathEncodings = strings.NewReplacer( //nolint:gochecknoglobals // a table
	"%2e", ".", "%2E", ".", "%2f", "/", "%2F", "/", "%5c", `\`, "%5C", `\`, "%25", "%", "%c0%ae", ".", "%C0%AE", ".", "%c0%af", "/", "%C0%AF", "/", "%00", "\x00",
)

// resolvedPath is the meaning of a path.
type resolvedPath struct {
	Clean   string
	Changed bool // the path has . or .. or encodings of them
	Parents bool // it has ..
	Left    bool // it leads above the place where it begins
}

func resolvePath(path string) resolvedPath {
	decoded := decodePath(path)
	r := resolvedPath{Changed: decoded != path}
	separator := "/"
	if strings.Contains(decoded, `\`) && (!strings.Contains(decoded, "/") || hasParent(decoded)) {
		if !strings.Contains(decoded, "/") {
			separator = `\`
		}
		decoded = strings.ReplaceAll(decoded, `\`, "/")
	}
	rooted := strings.HasPrefix(decoded, "/")
	var kept []string
	for i, part := range strings.Split(decoded, "/") {
		switch {
		case part == "..":
			r.Changed, r.Parents = true, true
			if len(kept) > 0 && kept[len(kept)-1] != ".." && kept[len(kept)-1] != "~" {
				kept = kept[:len(kept)-1]
				continue
			}
			r.Left = true
			if !rooted {
				kept = append(kept, part)
			}
		case part == ".":
			r.Changed = r.Changed || i > 0
		case part != "" || i == 0:
			if part != "" {
				kept = append(kept, part)
			}
		}
	}
	r.Clean = strings.Join(kept, separator)
	if rooted {
		r.Clean = separator + r.Clean
	}
	return r
}
