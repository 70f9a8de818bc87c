package condition

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/decls"
	"cel.dev/cel-go/common/functions"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/stdlib"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
	"golang.org/x/net/idna"
	"golang.org/x/text/unicode/norm"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/internal/typed"
)

// functionUsage says how each function that a condition may call is written.
//
//nolint:gochecknoglobals // a table
var functionUsage = map[string]string{
	"domain":          `domain(text)`,
	"within":          `within(path, folder)`,
	"writesSQL":       `writesSQL(text)`,
	"filesRead":       `filesRead(command)`,
	"spent":           `spent("field", "1h")`,
	"calls":           `calls("1h")`,
	"distinct":        `distinct("field", "1h")`,
	"after":           `after("tool")`,
	"size":            `size(text or list)`,
	"has":             `has(args.field)`,
	"all":             `list.all(item, condition)`,
	"exists":          `list.exists(item, condition)`,
	"exists_one":      `list.exists_one(item, condition)`,
	"filter":          `list.filter(item, condition)`,
	"map":             `list.map(item, value)`,
	"contains":        `text.contains(part)`,
	"startsWith":      `text.startsWith(beginning)`,
	"endsWith":        `text.endsWith(end)`,
	"matches":         `text.matches("pattern")`,
	"lowerAscii":      `text.lowerAscii()`,
	"trim":            `text.trim()`,
	"split":           `text.split(separator)`,
	"replace":         `text.replace(old, new)`,
	"math.abs":        `math.abs(number)`,
	"math.ceil":       `math.ceil(number)`,
	"math.floor":      `math.floor(number)`,
	"math.round":      `math.round(number)`,
	"int":             `int(value)`,
	"double":          `double(integer)`,
	"string":          `string(value)`,
	"timestamp":       `timestamp("2026-01-31T08:00:00Z")`,
	"duration":        `duration("1h30m")`,
	"getFullYear":     `now.getFullYear("Europe/Berlin")`,
	"getMonth":        `now.getMonth("Europe/Berlin")`,
	"getDate":         `now.getDate("Europe/Berlin")`,
	"getDayOfMonth":   `now.getDayOfMonth("Europe/Berlin")`,
	"getDayOfWeek":    `now.getDayOfWeek("Europe/Berlin")`,
	"getDayOfYear":    `now.getDayOfYear("Europe/Berlin")`,
	"getHours":        `now.getHours("Europe/Berlin")`,
	"getMinutes":      `now.getMinutes("Europe/Berlin")`,
	"getSeconds":      `now.getSeconds("Europe/Berlin")`,
	"getMilliseconds": `now.getMilliseconds("Europe/Berlin")`,
}

// declareFunctions returns the functions of the standard library that conditions may call, with these changes:
//
//   - Conversions between int and double are exact or fail.
//   - Arithmetic with doubles fails if the result is infinite or not a number.
//   - Functions of times know only named zones and offsets, and keep the zones.
//   - There is no dyn, type, bytes and uint.
func declareFunctions() []cel.EnvOption {
	var options []cel.EnvOption
	for _, f := range stdlib.Functions() {
		switch name := f.Name(); name {
		case overloads.TypeConvertDyn, overloads.TypeConvertType, overloads.TypeConvertBytes, overloads.TypeConvertUint, overloads.TypeConvertBool:
		case operators.Add, operators.Subtract, operators.Multiply, operators.Divide:
			options = append(options, cel.Function(name, rebindOverloads(f, arithmetic[name])...))
		case overloads.TypeConvertDouble:
			options = append(options, cel.Function(name,
				cel.Overload(overloads.DoubleToDouble, []*cel.Type{cel.DoubleType}, cel.DoubleType, cel.UnaryBinding(keepValue)),
				cel.Overload(overloads.IntToDouble, []*cel.Type{cel.IntType}, cel.DoubleType, cel.UnaryBinding(convertInt))))
		case overloads.TypeConvertInt:
			options = append(options, cel.FunctionDecls(f.Subset(decls.ExcludeOverloads(overloads.DoubleToInt, overloads.UintToInt))),
				cel.Function(name, cel.Overload(overloads.DoubleToInt, []*cel.Type{cel.DoubleType}, cel.IntType, cel.UnaryBinding(convertDouble))))
		default:
			clock := clocks[name]
			if clock == nil {
				options = append(options, cel.FunctionDecls(f))
				continue
			}
			options = append(options, cel.FunctionDecls(f.Subset(decls.ExcludeOverloads(clock.overload))),
				cel.Function(name, cel.MemberOverload(clock.overload, []*cel.Type{cel.TimestampType, cel.StringType}, cel.IntType, cel.BinaryBinding(clock.readPart))))
		}
	}
	options = append(options, cel.Macros(cel.StandardMacros...))
	options = append(options, declareTextFunctions()...)
	return append(options, declareMathFunctions()...)
}

// declareTextFunctions returns our own functions of texts, and four that CEL's string library has too. The library itself would cost 0.7 MB.
func declareTextFunctions() []cel.EnvOption {
	text := []*cel.Type{cel.StringType}
	texts := []*cel.Type{cel.StringType, cel.StringType}
	return []cel.EnvOption{
		cel.Function("domain", cel.Overload("domain_string", text, cel.StringType, cel.UnaryBinding(callDomain))),
		cel.Function("within", cel.Overload("within_string_string", texts, cel.BoolType, cel.BinaryBinding(callWithin))),
		cel.Function("writesSQL", cel.Overload("writes_sql_string", text, cel.BoolType, cel.UnaryBinding(func(text ref.Val) ref.Val {
			return types.Bool(!typed.ReadsOnly(stringOf(text)))
		}))),
		cel.Function("filesRead", cel.Overload("files_read_string", text, cel.ListType(cel.StringType), cel.UnaryBinding(func(text ref.Val) ref.Val {
			return types.NewStringList(types.DefaultTypeAdapter, typed.FilesRead(stringOf(text)))
		}))),
		cel.Function("lowerAscii", cel.MemberOverload("string_lower_ascii", text, cel.StringType, cel.UnaryBinding(lowerText))),
		cel.Function("trim", cel.MemberOverload("string_trim", text, cel.StringType, cel.UnaryBinding(func(text ref.Val) ref.Val {
			return types.String(strings.TrimSpace(stringOf(text)))
		}))),
		cel.Function("split", cel.MemberOverload("string_split_string", texts, cel.ListType(cel.StringType), cel.BinaryBinding(func(text, separator ref.Val) ref.Val {
			return types.NewStringList(types.DefaultTypeAdapter, strings.Split(stringOf(text), stringOf(separator)))
		}))),
		cel.Function("replace", cel.MemberOverload("string_replace_string_string", append(texts, cel.StringType), cel.StringType, cel.FunctionBinding(replaceText))),
		cel.CostModel(
			cost.Overload(boundedMatches, cost.EvalCost(cost.Sum(cost.Const(1), cost.Scale(cost.Mul(cost.Arg(0), cost.IntArg(1, 1)), 0.15)))),
			cost.Overload("domain_string", cost.EvalCost(cost.Sum(cost.Const(10), cost.StringScan(cost.Arg(0)))), cost.ResultSize(cost.AtMost(cost.Const(longestHost)))),
			cost.Overload("within_string_string", cost.EvalCost(cost.Sum(cost.Const(5), cost.StringScan(cost.Arg(0)), cost.StringScan(cost.Arg(1))))),
			cost.Overload("writes_sql_string", cost.EvalCost(cost.Sum(cost.Const(5), cost.Arg(0)))),
			cost.Overload("files_read_string", cost.EvalCost(cost.Sum(cost.Const(cost.ListCreateBaseCost), cost.Arg(0))),
				cost.ResultSize(cost.List(cost.Const(usualFiles), cost.Const(usualItem)))),
			cost.MemberOverload("string_lower_ascii", cost.EvalCost(cost.Sum(cost.Const(1), cost.StringScan(cost.Target()))), cost.ResultSize(cost.Target())),
			cost.MemberOverload("string_trim", cost.EvalCost(cost.Sum(cost.Const(1), cost.StringScan(cost.Target()))), cost.ResultSize(cost.Target())),
			cost.MemberOverload("string_split_string", cost.EvalCost(cost.Sum(cost.Const(cost.ListCreateBaseCost), cost.Target())),
				cost.ResultSize(cost.List(cost.Scale(cost.Target(), 0.1), cost.Const(usualItem)))),
			cost.MemberOverload("string_replace_string_string", cost.EvalCost(cost.Sum(cost.Const(1), cost.StringScan(cost.Target()), cost.StringScan(cost.Result()))),
				cost.ResultSize(cost.Target())),
		),
	}
}

func callDomain(text ref.Val) ref.Val {
	name, err := FindDomain(stringOf(text))
	if err != nil {
		return types.WrapErr(err)
	}
	return types.String(name)
}

func callWithin(file, folder ref.Val) ref.Val {
	below, err := IsWithin(stringOf(file), stringOf(folder))
	if err != nil {
		return types.WrapErr(err)
	}
	return types.Bool(below)
}

func lowerText(text ref.Val) ref.Val { return types.String(plain.LowerASCII(stringOf(text))) }

// stringOf returns the text of an operand that the overload declares as a string.
func stringOf(value ref.Val) string {
	text, _ := value.(types.String)
	return string(text)
}

// longestReplaced is the number of bytes of the longest text that replace makes.
const longestReplaced = 2 << 20

func replaceText(args ...ref.Val) ref.Val {
	text, old, replacement := stringOf(args[0]), stringOf(args[1]), stringOf(args[2])
	if len(text)+strings.Count(text, old)*len(replacement) > longestReplaced {
		return types.WrapErr(newValueError("replace: the result must have at most %d bytes", longestReplaced))
	}
	return types.String(strings.ReplaceAll(text, old, replacement))
}

// maxMatchSteps bounds one search for a pattern: the bytes of the text times the instructions of the pattern. One takes about 8 ns.
// As many steps cost MaxCost.
const maxMatchSteps = 6_500_000

// boundMatches replaces calls of matches by searches that are bounded and cost what they take. The library's cost knows the length of the pattern
// only, and a{1000} is short.
func boundMatches(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	call, ok := i.(interpreter.InterpretableCall)
	if !ok || call.Function() != overloads.Matches || len(call.Args()) != 2 {
		return i, nil
	}
	pattern, ok := call.Args()[1].(interpreter.InterpretableConst)
	if !ok {
		return nil, errPattern
	}
	compiled, err := regexp.Compile(stringOf(pattern.Value()))
	if err != nil {
		return nil, err
	}
	size, err := types.RegexProgramSize(stringOf(pattern.Value()))
	if err != nil {
		return nil, err
	}
	args := []interpreter.InterpretableV2{call.Args()[0], interpreter.NewConstValue(pattern.ID(), types.Int(size))}
	return interpreter.NewCall(call.ID(), boundedMatches, boundedMatches, args, func(values ...ref.Val) ref.Val {
		text, ok := values[0].(types.String)
		switch {
		case !ok:
			return types.NewErr("no such overload: matches")
		case len(text)*size > maxMatchSteps:
			return types.WrapErr(newValueError("matches: the text is too long for this pattern"))
		}
		return types.Bool(compiled.MatchString(string(text)))
	}), nil
}

const boundedMatches = "bounded_matches"

// errPattern is the error of a pattern that is no text in quotes, which the checker refuses before.
var errPattern = errors.New("the pattern of matches must be a text in quotes")

// declareMathFunctions returns the functions of numbers that CEL's math library has too.
func declareMathFunctions() []cel.EnvOption {
	var options []cel.EnvOption
	for name, calculate := range map[string]func(float64) float64{"floor": math.Floor, "ceil": math.Ceil, "round": math.Round, "abs": math.Abs} {
		overloads := []cel.FunctionOpt{cel.Overload("math_"+name+"_double", []*cel.Type{cel.DoubleType}, cel.DoubleType, cel.UnaryBinding(func(value ref.Val) ref.Val {
			d, ok := value.(types.Double)
			if !ok {
				return types.MaybeNoSuchOverloadErr(value)
			}
			return types.Double(calculate(float64(d)))
		}))}
		if name == "abs" {
			overloads = append(overloads, cel.Overload("math_abs_int", []*cel.Type{cel.IntType}, cel.IntType, cel.UnaryBinding(func(value ref.Val) ref.Val {
				i, ok := value.(types.Int)
				if !ok {
					return types.MaybeNoSuchOverloadErr(value)
				}
				if i < 0 {
					return i.Negate()
				}
				return i
			})))
		}
		options = append(options, cel.Function("math."+name, overloads...))
	}
	return options
}

// rebindOverloads returns the overloads of a function with another implementation.
func rebindOverloads(f *decls.FunctionDecl, operate functions.BinaryOp) []cel.FunctionOpt {
	var options []cel.FunctionOpt
	for _, o := range f.OverloadDecls() {
		options = append(options, cel.Overload(o.ID(), o.ArgTypes(), o.ResultType()))
	}
	return append(options, cel.SingletonBinaryBinding(operate))
}

//nolint:gochecknoglobals // a table
var arithmetic = map[string]functions.BinaryOp{
	operators.Add: func(left, right ref.Val) ref.Val {
		if adder, ok := left.(traits.Adder); ok {
			return requireFinite(adder.Add(right))
		}
		return types.MaybeNoSuchOverloadErr(left)
	},
	operators.Subtract: func(left, right ref.Val) ref.Val {
		if subtractor, ok := left.(traits.Subtractor); ok {
			return requireFinite(subtractor.Subtract(right))
		}
		return types.MaybeNoSuchOverloadErr(left)
	},
	operators.Multiply: func(left, right ref.Val) ref.Val {
		if multiplier, ok := left.(traits.Multiplier); ok {
			return requireFinite(multiplier.Multiply(right))
		}
		return types.MaybeNoSuchOverloadErr(left)
	},
	operators.Divide: func(left, right ref.Val) ref.Val {
		if divider, ok := left.(traits.Divider); ok {
			return requireFinite(divider.Divide(right))
		}
		return types.MaybeNoSuchOverloadErr(left)
	},
}

func requireFinite(value ref.Val) ref.Val {
	if d, ok := value.(types.Double); ok && (math.IsNaN(float64(d)) || math.IsInf(float64(d), 0)) {
		return types.WrapErr(newValueError("the result is not a finite number"))
	}
	return value
}

func keepValue(value ref.Val) ref.Val { return value }

// convertInt converts an int to the double of the same value.
func convertInt(value ref.Val) ref.Val {
	i, ok := value.(types.Int)
	if !ok {
		return types.MaybeNoSuchOverloadErr(value)
	}
	if f := float64(i); f < math.MaxInt64 && int64(f) == int64(i) {
		return types.Double(f)
	}
	return types.WrapErr(newValueError("double: the integer has more digits than a number can hold"))
}

// convertDouble converts a double to the int of the same value.
func convertDouble(value ref.Val) ref.Val {
	d, ok := value.(types.Double)
	if !ok {
		return types.MaybeNoSuchOverloadErr(value)
	}
	if f := float64(d); f == math.Trunc(f) && f >= math.MinInt64 && f < math.MaxInt64 {
		return types.Int(f)
	}
	return types.WrapErr(newValueError("int: the number must be whole: use math.floor, math.ceil or math.round"))
}

// clock reads a part of a time in a zone.
type clock struct {
	overload string
	part     func(time.Time) int
}

func (c *clock) readPart(at, zone ref.Val) ref.Val {
	t, isTime := at.(types.Timestamp)
	name, isText := zone.(types.String)
	if !isTime || !isText {
		return types.NoSuchOverloadErr()
	}
	location, err := loadZone(string(name))
	if err != nil {
		return types.WrapErr(err)
	}
	return types.Int(c.part(t.In(location)))
}

//nolint:gochecknoglobals // a table
var clocks = map[string]*clock{
	overloads.TimeGetFullYear:     {overloads.TimestampToYearWithTz, time.Time.Year},
	overloads.TimeGetMonth:        {overloads.TimestampToMonthWithTz, func(t time.Time) int { return int(t.Month()) - 1 }},
	overloads.TimeGetDayOfYear:    {overloads.TimestampToDayOfYearWithTz, func(t time.Time) int { return t.YearDay() - 1 }},
	overloads.TimeGetDate:         {overloads.TimestampToDayOfMonthOneBasedWithTz, time.Time.Day},
	overloads.TimeGetDayOfMonth:   {overloads.TimestampToDayOfMonthZeroBasedWithTz, func(t time.Time) int { return t.Day() - 1 }},
	overloads.TimeGetDayOfWeek:    {overloads.TimestampToDayOfWeekWithTz, func(t time.Time) int { return int(t.Weekday()) }},
	overloads.TimeGetHours:        {overloads.TimestampToHoursWithTz, time.Time.Hour},
	overloads.TimeGetMinutes:      {overloads.TimestampToMinutesWithTz, time.Time.Minute},
	overloads.TimeGetSeconds:      {overloads.TimestampToSecondsWithTz, time.Time.Second},
	overloads.TimeGetMilliseconds: {overloads.TimestampToMillisecondsWithTz, func(t time.Time) int { return t.Nanosecond() / 1e6 }},
}

//nolint:gochecknoglobals // zones that conditions name, which the checker verified
var zones sync.Map // string to *time.Location

var offset = regexp.MustCompile(`^[+-](0[0-9]|1[0-4]):[0-5][0-9]$`)

// loadZone returns a time zone by its name, Europe/Berlin, or by its offset, +02:00.
func loadZone(name string) (*time.Location, error) {
	if known, ok := zones.Load(name); ok {
		return known.(*time.Location), nil //nolint:forcetypeassert // only locations are stored
	}
	var location *time.Location
	if offset.MatchString(name) {
		var hours, minutes int
		if _, err := fmt.Sscanf(name[1:], "%d:%d", &hours, &minutes); err != nil {
			return nil, fmt.Errorf("time zone %q: %w", name, err)
		}
		seconds := (hours*60 + minutes) * 60
		if name[0] == '-' {
			seconds = -seconds
		}
		location = time.FixedZone(name, seconds)
	} else {
		var err error
		location, err = time.LoadLocation(name)
		if err != nil || name == "" || name == "Local" {
			return nil, fmt.Errorf("unknown time zone %q", clipText(name))
		}
	}
	zones.Store(name, location)
	return location, nil
}

// longestHost is the number of characters of the longest host.
const longestHost = 253

// longestDomainText is the number of bytes of the longest text that domain reads.
const longestDomainText = 4096

// FindDomain returns the domain of an e-mail address or the host of a URL, in lower case and in ASCII: bücher.example is
// xn--bcher-kva.example. An IP address is returned in its usual form. It returns an error for everything else, and for a text that
// programs read differently.
func FindDomain(text string) (string, error) {
	none := newValueError("domain: the text must be one e-mail address or one URL")
	if len(text) > longestDomainText || strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\\' }) {
		return "", none
	}
	v := typed.RecognizeText(text)
	var host typed.Host
	switch v.Kind {
	case typed.Email:
		if strings.ContainsAny(v.Address.Mail, "%!") { // routes through another domain
			return "", none
		}
		host = v.Address.Host
	case typed.URL:
		if v.Link.Scheme == "file" { // programs ignore the host
			return "", none
		}
		host = v.Link.Host
	default:
		return "", none
	}
	if host.Text == "" {
		return "", none
	}
	if host.IP != "" {
		return host.IP, nil
	}
	name := strings.TrimSuffix(host.Text, ".")
	if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return "", none
	}
	ascii, err := idna.Lookup.ToASCII(name)
	if err != nil || ascii == "" || len(ascii) > longestHost || strings.ContainsAny(ascii, "%:@/[]") {
		return "", none
	}
	return strings.ToLower(ascii), nil
}

// IsWithin reports whether a path lies below a folder after "." and ".." are resolved. It does not look at the file system, so it knows no
// links. It returns an error for a path that servers read differently.
func IsWithin(file, folder string) (bool, error) {
	for _, text := range []string{file, folder} {
		if err := checkPath(text); err != nil {
			return false, newValueError("within: the path %s", err)
		}
	}
	file, folder = path.Clean(file), path.Clean(folder)
	if path.IsAbs(file) != path.IsAbs(folder) {
		return false, newValueError("within: the path and the folder must both be absolute or both be relative")
	}
	switch folder {
	case "/":
		return file != "/", nil
	case ".":
		return file != "." && file != ".." && !strings.HasPrefix(file, "../"), nil
	}
	return strings.HasPrefix(file, folder+"/"), nil
}

var encodedByte = regexp.MustCompile(`%(u[0-9A-Fa-f]{2})?[0-9A-Fa-f]{2}`)

// Errors of paths.
var (
	errPathLength    = fmt.Errorf("must have 1 to %d bytes", MaxPath)
	errPathSpace     = errors.New("must not begin or end with a space")
	errPathControl   = errors.New("must not have control characters")
	errPathSlash     = errors.New("must have no backslashes")
	errPathEncoded   = errors.New("must not be percent-encoded")
	errPathURL       = errors.New("must not be a URL")
	errPathNetwork   = errors.New("must not begin with two slashes")
	errPathTrimmed   = errors.New("must not have names that end with a space or a dot, except . and .. themselves")
	errPathHome      = errors.New("must not begin with ~")
	errPathLookalike = errors.New("must not have characters that become dots or slashes")
)

func checkPath(text string) error {
	switch {
	case text == "" || len(text) > MaxPath:
		return errPathLength
	case strings.TrimSpace(text) != text:
		return errPathSpace
	case strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }):
		return errPathControl
	case strings.Contains(text, `\`):
		return errPathSlash
	case encodedByte.MatchString(text):
		return errPathEncoded
	case strings.Contains(text, "://") || strings.HasPrefix(strings.ToLower(text), "file:"):
		return errPathURL
	case strings.HasPrefix(text, "//"):
		return errPathNetwork
	case slices.ContainsFunc(strings.Split(text, "/"), losesEnd):
		return errPathTrimmed
	case strings.HasPrefix(text, "~"):
		return errPathHome
	case strings.ContainsFunc(text, becomesSeparator):
		return errPathLookalike
	}
	return nil
}

// losesEnd reports whether Windows removes the end of a name, so that ".. " becomes "..".
func losesEnd(name string) bool {
	return name != "." && name != ".." && strings.TrimRight(name, " .") != name
}

// becomesSeparator reports whether a character may become a dot or a slash where Unicode is normalized.
func becomesSeparator(r rune) bool {
	return r > unicode.MaxASCII && strings.ContainsAny(norm.NFKC.String(string(r)), `./\`)
}
