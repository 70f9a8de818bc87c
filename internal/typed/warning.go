package typed

import "strings"

// Level says how much attention a warning asks for.
type Level uint8

// The levels of warnings.
const (
	Notice Level = iota // unusual, and often honest
	Danger              // honest calls do not have it
)

// Code is the kind of a warning.
type Code uint8

// The codes of warnings, with their arguments.
const (
	NumberAsText      Code = iota // the text
	IBANInvalid                   // the IBAN: its length or its checksum is wrong
	Userinfo                      // the text before @, the host: the text is no part of the host
	AmbiguousHost                 // the address: programs disagree about its host
	NumericHost                   // the host as written, the IP address that it means
	IPHost                        // the IP address
	PunycodeHost                  // the host as written, the host with its letters
	LookalikeHost                 // the host as written, the ASCII host that it looks like
	ScriptURL                     // the scheme: opening the address runs code
	DisplayedAddress              // the address in the name, the address that gets the mail
	PathTraversal                 // the path as written, the path that it means
	PathLeavesRoot                // the path as written, the path that it means: outside of where it begins
	HiddenText                    // the comment: it looks like a part of the statement, but has no effect
	ExecutableComment             // the comment: MySQL executes it
	NoCondition                   // DELETE or UPDATE: the statement changes all rows
	AlwaysTrue                    // the condition: it is true for all rows
	DownloadExecuted              // the program that downloads, the interpreter that runs the download
	DecodedExecuted               // the program that decodes, the interpreter that runs the result
	TypeMismatch                  // the declared type or file name, the type of the bytes
	NestedEncoding                // the number of encodings
	ActiveContent                 // the tag, attribute or address that runs code
	KeysDifferInCase              // the two names
	ItemsDifferInCase             // the two items
	AmbiguousAmount               // the text: 1,284 may be 1284 or 1.284
)

// Level returns the level of all warnings with this code.
func (c Code) Level() Level {
	switch c {
	case NumberAsText, IPHost, PunycodeHost, ItemsDifferInCase, AmbiguousAmount:
		return Notice
	case IBANInvalid, Userinfo, AmbiguousHost, NumericHost, LookalikeHost, ScriptURL, DisplayedAddress, PathTraversal, PathLeavesRoot,
		HiddenText, ExecutableComment, NoCondition, AlwaysTrue, DownloadExecuted, DecodedExecuted, TypeMismatch, NestedEncoding,
		ActiveContent, KeysDifferInCase:
		return Danger
	}
	return Danger
}

// Warning says that a value is suspicious. The code says which arguments there are.
type Warning struct {
	Code Code
	Args []string
}

// Level returns the level of the warning's code.
func (w Warning) Level() Level { return w.Code.Level() }

// maxArgument is the number of bytes of a warning's argument.
const maxArgument = 256

func newWarning(code Code, args ...string) Warning {
	for i, arg := range args {
		if len(arg) > maxArgument {
			args[i] = strings.ToValidUTF8(arg[:maxArgument], "") + "…"
		}
	}
	return Warning{Code: code, Args: args}
}

// maxWarnings is the number of warnings about one value.
const maxWarnings = 20

func (v *Value) addWarning(code Code, args ...string) {
	if len(v.Warnings) < maxWarnings {
		v.Warnings = append(v.Warnings, newWarning(code, args...))
	}
}
