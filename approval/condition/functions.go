package condition

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"path"
	"regexp"
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
	"cel.dev/cel-go/ext"
	"golang.org/x/net/idna"
	"golang.org/x/text/unicode/norm"

	"github.com/holdpoint/holdpoint/internal/typed"
)

// functionUsage says how each function that a condition may call is written.
//
//nolint:gochecknoglobals // a table
var functionUsage = map[string]string{
	"domain":          `domain(text)`,
	"within":          `within(path, folder)`,
	"writesSQL":       `writesSQL(text)`,
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
	"substring":       `text.substring(start, end)`,
	"sets.contains":   `sets.contains(list, part)`,
	"sets.equivalent": `sets.equivalent(list, list)`,
	"sets.intersects": `sets.intersects(list, list)`,
	"math.abs":        `math.abs(number)`,
	"math.ceil":       `math.ceil(number)`,
	"math.floor":      `math.floor(number)`,
	"math.round":      `math.round(number)`,
	"math.greatest":   `math.greatest(number, number)`,
	"math.least":      `math.least(number, number)`,
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

// internalNames are the names that functions have after macros are expanded.
//
//nolint:gochecknoglobals // a table
var internalNames = map[string]string{"math.@max": "math.greatest", "math.@min": "math.least"}

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
			options = append(options, cel.Function(name, rebind(f, arithmetic[name])...))
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
				cel.Function(name, cel.MemberOverload(clock.overload, []*cel.Type{cel.TimestampType, cel.StringType}, cel.IntType, cel.BinaryBinding(clock.read))))
		}
	}
	return append(options,
		cel.Macros(cel.StandardMacros...),
		ext.Strings(), ext.Sets(), ext.Math(),
		cel.Function("domain", cel.Overload("domain_string", []*cel.Type{cel.StringType}, cel.StringType, cel.UnaryBinding(func(text ref.Val) ref.Val {
			name, err := findDomain(string(text.(types.String))) //nolint:forcetypeassert // the overload's type
			if err != nil {
				return types.WrapErr(err)
			}
			return types.String(name)
		}))),
		cel.Function("within", cel.Overload("within_string_string", []*cel.Type{cel.StringType, cel.StringType}, cel.BoolType, cel.BinaryBinding(func(file, folder ref.Val) ref.Val {
			below, err := isWithin(string(file.(types.String)), string(folder.(types.String))) //nolint:forcetypeassert // the overload's type
			if err != nil {
				return types.WrapErr(err)
			}
			return types.Bool(below)
		}))),
		cel.Function("writesSQL", cel.Overload("writes_sql_string", []*cel.Type{cel.StringType}, cel.BoolType, cel.UnaryBinding(func(text ref.Val) ref.Val {
			return types.Bool(!typed.ReadsOnly(string(text.(types.String)))) //nolint:forcetypeassert // the overload's type
		}))),
		cel.CostModel(
			cost.Overload("domain_string", cost.EvalCost(cost.Sum(cost.Const(10), cost.StringScan(cost.Arg(0)))), cost.ResultSize(cost.AtMost(cost.Const(longestHost)))),
			cost.Overload("within_string_string", cost.EvalCost(cost.Sum(cost.Const(5), cost.StringScan(cost.Arg(0)), cost.StringScan(cost.Arg(1))))),
			cost.Overload("writes_sql_string", cost.EvalCost(cost.Sum(cost.Const(5), cost.Scale(cost.Arg(0), 1)))),
		))
}

// rebind returns the overloads of a function with another implementation.
func rebind(f *decls.FunctionDecl, operate functions.BinaryOp) []cel.FunctionOpt {
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
		return types.NewErr("the result is not a finite number")
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
	return types.NewErr("double: %d has more digits than a number can hold", i)
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
	return types.NewErr("int: %v must be a whole number: use math.floor, math.ceil or math.round", d)
}

// clock reads a part of a time in a zone.
type clock struct {
	overload string
	part     func(time.Time) int
}

func (c *clock) read(at, zone ref.Val) ref.Val {
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
			return nil, fmt.Errorf("unknown time zone %q", clip(name))
		}
	}
	zones.Store(name, location)
	return location, nil
}

// longestHost is the number of characters of the longest host.
const longestHost = 253

// longestDomainText is the number of bytes of the longest text that domain reads.
const longestDomainText = 4096

// findDomain returns the domain of an e-mail address or the host of a URL, in lower case and in ASCII: bücher.example is
// xn--bcher-kva.example. An IP address is returned in its usual form. It returns an error for everything else, and for a text that
// programs read differently.
func findDomain(text string) (string, error) {
	none := fmt.Errorf("domain: %q must be an e-mail address or a URL", clip(text))
	if len(text) > longestDomainText || strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\\' }) {
		return "", none
	}
	v := typed.RecognizeText(text)
	var host typed.Host
	switch v.Kind {
	case typed.Email:
		host = v.Address.Host
	case typed.URL:
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

// longestPath is the number of bytes of the longest path that within reads.
const longestPath = 4096

// isWithin reports whether a path lies below a folder after "." and ".." are resolved. It does not look at the file system, so it knows no
// links. It returns an error for a path that servers read differently.
func isWithin(file, folder string) (bool, error) {
	for _, text := range []string{file, folder} {
		if err := checkPath(text); err != nil {
			return false, fmt.Errorf("within: path %q %w", clip(text), err)
		}
	}
	file, folder = path.Clean(file), path.Clean(folder)
	if path.IsAbs(file) != path.IsAbs(folder) {
		return false, fmt.Errorf("within: %q and %q must both be absolute or both be relative", clip(file), clip(folder))
	}
	switch folder {
	case "/":
		return file != "/", nil
	case ".":
		return file != "." && file != ".." && !strings.HasPrefix(file, "../"), nil
	}
	return strings.HasPrefix(file, folder+"/"), nil
}

var encodedByte = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)

// Errors of paths.
var (
	errPathLength    = errors.New("must have 1 to 4096 bytes")
	errPathSpace     = errors.New("must not begin or end with a space")
	errPathControl   = errors.New("must not have control characters")
	errPathSlash     = errors.New("must have no backslashes")
	errPathEncoded   = errors.New("must not be percent-encoded")
	errPathURL       = errors.New("must not be a URL")
	errPathHome      = errors.New("must not begin with ~")
	errPathLookalike = errors.New("must not have characters that become dots or slashes")
)

func checkPath(text string) error {
	switch {
	case text == "" || len(text) > longestPath:
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
	case strings.HasPrefix(text, "~"):
		return errPathHome
	case strings.ContainsFunc(text, becomesSeparator):
		return errPathLookalike
	}
	return nil
}

// becomesSeparator reports whether a character may become a dot or a slash where Unicode is normalized.
func becomesSeparator(r rune) bool {
	return r > unicode.MaxASCII && strings.ContainsAny(norm.NFKC.String(string(r)), `./\`)
}
