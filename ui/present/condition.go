package present

import (
	"slices"
	"strconv"
	"strings"

	"github.com/holdpoint/holdpoint/approval/condition"
	"github.com/holdpoint/holdpoint/ui/text"
)

// DescribeCondition says in a sentence when a condition holds. Parts that have no words are code.
func DescribeCondition(source string) text.Message { return describePhrase(condition.Describe(source)) }

// FunctionHelp is a function that conditions may call, and what it does.
type FunctionHelp struct {
	Name  string
	Kind  string // "member": it is written behind a point; otherwise "plain"
	Usage string
	Help  text.Message
}

// ListFunctions returns the functions that conditions may call.
func ListFunctions() []FunctionHelp {
	var list []FunctionHelp
	for _, f := range condition.Functions() {
		if w := wordings[condition.Form(f.Name)]; w.help != nil {
			kind := "member"
			if strings.HasPrefix(f.Usage, f.Name) {
				kind = "plain"
			}
			list = append(list, FunctionHelp{f.Name, kind, f.Usage, w.help()})
		}
	}
	return list
}

// teller puts a phrase into words; parts are those of its parts.
type teller func(p *condition.Phrase, parts []text.Message) text.Message

// wording is how a form is put into words. A function gets its sentence by a row of wordings.
type wording struct {
	say   teller
	deny  teller              // the opposite; nil: "it is not true that"
	help  func() text.Message // what a function does; nil: it is no function
	parts int                 // the least number of parts
}

func ofNone(form func() text.Message) teller {
	return func(*condition.Phrase, []text.Message) text.Message { return form() }
}

func ofOne(form func(text.Message) text.Message) teller {
	return func(_ *condition.Phrase, parts []text.Message) text.Message { return form(parts[0]) }
}

func ofTwo(form func(value, other text.Message) text.Message) teller {
	return func(_ *condition.Phrase, parts []text.Message) text.Message { return form(parts[0], parts[1]) }
}

func ofThree(form func(first, second, third text.Message) text.Message) teller {
	return func(_ *condition.Phrase, parts []text.Message) text.Message {
		return form(parts[0], parts[1], parts[2])
	}
}

// ofValue is for forms with a value that is shown as code.
func ofValue(form func(name text.Message) text.Message) teller {
	return func(p *condition.Phrase, _ []text.Message) text.Message { return form(text.Code(p.Value)) }
}

// ofLoop is for macros of lists.
func ofLoop(form func(name, list, it text.Message) text.Message) teller {
	return func(p *condition.Phrase, parts []text.Message) text.Message {
		return form(text.Code(p.Value), parts[0], parts[1])
	}
}

// ofWritten is for functions whose operand is usually a text in quotes, which is shown without them.
func ofWritten(form func(text.Message) text.Message) teller {
	return func(p *condition.Phrase, parts []text.Message) text.Message {
		if p.Parts[0].Form == condition.FormText {
			return form(text.Code(p.Parts[0].Value))
		}
		return form(parts[0])
	}
}

// ofTime is for parts of times. named is for a part that is compared with names.
func ofTime(form, named func() text.Message) teller {
	return func(p *condition.Phrase, parts []text.Message) text.Message {
		part := form()
		if p.Value == condition.Named {
			part = named()
		}
		if len(p.Parts) > 1 {
			part = text.ConditionInZone(part, text.Code(p.Parts[1].Value))
		} else if p.Parts[0].Form == condition.FormNow {
			part = text.ConditionInZone(part, text.Code("UTC"))
		}
		if p.Parts[0].Form != condition.FormNow {
			part = text.ConditionPartOf(part, parts[0])
		}
		return part
	}
}

// ofEarlier is for functions of earlier calls, whose operands are texts in quotes: n of them, and the group of calls that is counted.
func ofEarlier(form func(of []text.Message) text.Message, n int) teller {
	return func(p *condition.Phrase, _ []text.Message) text.Message {
		operands := make([]text.Message, len(p.Parts))
		for i, part := range p.Parts {
			operands[i] = text.Code(part.Value)
		}
		said := form(operands)
		if len(p.Parts) > n {
			switch p.Parts[n].Value {
			case "agent":
				return text.ConditionSameAgent(said)
			case "principal":
				return text.ConditionSamePerson(said)
			case "tool":
				return text.ConditionSameTool(said)
			}
		}
		return said
	}
}

// joined is for forms with any number of parts.
func joined(join func(parts []text.Message) text.Message) teller {
	return func(_ *condition.Phrase, parts []text.Message) text.Message { return join(parts) }
}

func keepValue(value text.Message) text.Message { return value }

// joinPairs joins parts with words between them.
func joinPairs(join func(first, second text.Message) text.Message) teller {
	return joined(func(parts []text.Message) text.Message {
		all := parts[0]
		for _, part := range parts[1:] {
			all = join(all, part)
		}
		return all
	})
}

// ofSign is for operators of numbers.
func ofSign(sign string) teller {
	return joined(func(parts []text.Message) text.Message {
		if len(parts) == 1 {
			return text.Join("", text.Literal(sign), parts[0])
		}
		return text.Join(" "+sign+" ", parts...)
	})
}

// chooseOf is for a value and the values of which it is one.
func chooseOf(form func(value, list text.Message) text.Message) teller {
	return joined(func(parts []text.Message) text.Message { return form(parts[0], text.Join(", ", parts[1:]...)) })
}

func listValues(parts []text.Message) text.Message {
	if len(parts) == 0 {
		return text.ConditionEmptyList()
	}
	return text.Join(", ", parts...)
}

// namePerson returns the name of a field of the person behind a call.
func namePerson(p *condition.Phrase, _ []text.Message) text.Message {
	switch p.Value {
	case "":
		return text.ConditionPerson()
	case "id":
		return text.ConditionPersonID()
	case "email":
		return text.ConditionPersonEmail()
	case "name":
		return text.ConditionPersonName()
	case "groups":
		return text.ConditionPersonTeams()
	}
	return text.Code("principal." + p.Value)
}

// nameContext returns the name of a claim of the caller.
func nameContext(p *condition.Phrase, _ []text.Message) text.Message {
	switch p.Value {
	case "cwd":
		return text.ConditionCwd()
	case "paths":
		return text.ConditionPaths()
	}
	return text.Code(strings.TrimSuffix("context."+p.Value, "."))
}

// isNull says that a value is null, or that there is no person.
func isNull(value func(text.Message) text.Message, nobody func() text.Message) teller {
	return func(p *condition.Phrase, parts []text.Message) text.Message {
		if p.Parts[0].Form == condition.FormWho && p.Parts[0].Value == "" {
			return nobody()
		}
		return value(parts[0])
	}
}

// nameOf returns one of the names of weekdays or months.
func nameOf(names ...func() text.Message) teller {
	return func(p *condition.Phrase, _ []text.Message) text.Message {
		n, err := strconv.Atoi(p.Value)
		if err != nil || n < 0 || n >= len(names) {
			return text.Literal(p.Value)
		}
		return names[n]()
	}
}

// wordings has the words of every form.
//
//nolint:gochecknoglobals // a table
var wordings = map[condition.Form]wording{
	condition.FormCode:     {say: ofValue(keepValue)},
	condition.FormArgument: {say: ofValue(text.ConditionArgument)},
	condition.FormArgs:     {say: ofNone(text.ConditionArguments)},
	condition.FormAgent:    {say: ofNone(text.ConditionAgent)},
	condition.FormSkill:    {say: ofNone(text.ConditionSkill)},
	condition.FormTool:     {say: ofNone(text.ConditionTool)},
	condition.FormNow:      {say: ofNone(text.ConditionNow)},
	condition.FormWho:      {say: namePerson},
	condition.FormClaimed:  {say: ofValue(text.ConditionClaimed)},
	condition.FormContext:  {say: nameContext},
	condition.FormItem:     {say: ofValue(keepValue)},
	condition.FormText:     {say: func(p *condition.Phrase, _ []text.Message) text.Message { return text.Literal(strconv.Quote(p.Value)) }},
	condition.FormNumber:   {say: func(p *condition.Phrase, _ []text.Message) text.Message { return text.Exact(p.Value) }},
	condition.FormWeekday: {say: nameOf(text.ConditionSunday, text.ConditionMonday, text.ConditionTuesday, text.ConditionWednesday, text.ConditionThursday,
		text.ConditionFriday, text.ConditionSaturday)},
	condition.FormMonth: {say: nameOf(text.ConditionJanuary, text.ConditionFebruary, text.ConditionMarch, text.ConditionApril, text.ConditionMay, text.ConditionJune,
		text.ConditionJuly, text.ConditionAugust, text.ConditionSeptember, text.ConditionOctober, text.ConditionNovember, text.ConditionDecember)},
	condition.FormList:    {say: joined(listValues)},
	condition.FormAnd:     {say: joinPairs(text.ConditionAnd), parts: 1},
	condition.FormOr:      {say: joinPairs(text.ConditionOr), parts: 1},
	condition.FormFalse:   {say: ofOne(text.ConditionNot), parts: 1},
	condition.FormIf:      {say: ofThree(text.ConditionIf), parts: 3},
	condition.FormTrue:    {say: ofOne(text.ConditionTrue), deny: ofOne(text.ConditionTrueNot), parts: 1},
	condition.FormNull:    {say: isNull(text.ConditionNull, text.ConditionNobody), deny: isNull(text.ConditionNullNot, text.ConditionNobodyNot), parts: 1},
	condition.FormOneOf:   {say: chooseOf(text.ConditionOneOf), deny: chooseOf(text.ConditionOneOfNot), parts: 2},
	condition.FormIn:      {say: ofTwo(sayIn), deny: ofTwo(denyIn), parts: 2},
	condition.FormEqual:   {say: ofTwo(text.ConditionEqual), deny: ofTwo(text.ConditionEqualNot), parts: 2},
	condition.FormLess:    {say: ofTwo(text.ConditionLess), parts: 2},
	condition.FormAtMost:  {say: ofTwo(text.ConditionAtMost), parts: 2},
	condition.FormMore:    {say: ofTwo(text.ConditionMore), parts: 2},
	condition.FormAtLeast: {say: ofTwo(text.ConditionAtLeast), parts: 2},
	condition.FormPlus:    {say: ofSign("+"), parts: 1},
	condition.FormMinus:   {say: ofSign("-"), parts: 1},
	condition.FormTimes:   {say: ofSign("*"), parts: 1},
	condition.FormDivided: {say: ofSign("/"), parts: 1},
	condition.FormModulo:  {say: ofSign("%"), parts: 1},

	"has":             {say: ofOne(text.ConditionHas), deny: ofOne(text.ConditionHasNot), help: text.ConditionHelpHas, parts: 1},
	"all":             {say: ofLoop(text.ConditionAll), help: text.ConditionHelpAll, parts: 2},
	"exists":          {say: ofLoop(text.ConditionExists), deny: ofLoop(text.ConditionExistsNot), help: text.ConditionHelpExists, parts: 2},
	"exists_one":      {say: ofLoop(text.ConditionExistsOne), help: text.ConditionHelpExistsOne, parts: 2},
	"filter":          {say: ofLoop(text.ConditionFilter), help: text.ConditionHelpFilter, parts: 2},
	"map":             {say: ofLoop(sayMap), help: text.ConditionHelpMap, parts: 2},
	"contains":        {say: ofTwo(text.ConditionContains), deny: ofTwo(text.ConditionContainsNot), help: text.ConditionHelpContains, parts: 2},
	"startsWith":      {say: ofTwo(text.ConditionStartsWith), deny: ofTwo(text.ConditionStartsWithNot), help: text.ConditionHelpStartsWith, parts: 2},
	"endsWith":        {say: ofTwo(text.ConditionEndsWith), deny: ofTwo(text.ConditionEndsWithNot), help: text.ConditionHelpEndsWith, parts: 2},
	"matches":         {say: ofTwo(text.ConditionMatches), deny: ofTwo(text.ConditionMatchesNot), help: text.ConditionHelpMatches, parts: 2},
	"within":          {say: ofTwo(text.ConditionWithin), deny: ofTwo(text.ConditionWithinNot), help: text.ConditionHelpWithin, parts: 2},
	"writesSQL":       {say: ofOne(text.ConditionWritesSQL), deny: ofOne(text.ConditionWritesSQLNot), help: text.ConditionHelpWritesSQL, parts: 1},
	"filesRead":       {say: ofOne(text.ConditionFilesRead), help: text.ConditionHelpFilesRead, parts: 1},
	"domain":          {say: ofOne(text.ConditionDomain), help: text.ConditionHelpDomain, parts: 1},
	"size":            {say: ofOne(text.ConditionSize), help: text.ConditionHelpSize, parts: 1},
	"lowerAscii":      {say: ofOne(text.ConditionLowerASCII), help: text.ConditionHelpLowerASCII, parts: 1},
	"trim":            {say: ofOne(text.ConditionTrim), help: text.ConditionHelpTrim, parts: 1},
	"split":           {say: ofTwo(text.ConditionSplit), help: text.ConditionHelpSplit, parts: 2},
	"replace":         {say: ofThree(sayReplace), help: text.ConditionHelpReplace, parts: 3},
	"math.abs":        {say: ofOne(text.ConditionAbs), help: text.ConditionHelpAbs, parts: 1},
	"math.ceil":       {say: ofOne(text.ConditionCeil), help: text.ConditionHelpCeil, parts: 1},
	"math.floor":      {say: ofOne(text.ConditionFloor), help: text.ConditionHelpFloor, parts: 1},
	"math.round":      {say: ofOne(text.ConditionRound), help: text.ConditionHelpRound, parts: 1},
	"int":             {say: ofOne(keepValue), help: text.ConditionHelpInt, parts: 1},
	"double":          {say: ofOne(keepValue), help: text.ConditionHelpDouble, parts: 1},
	"string":          {say: ofOne(text.ConditionAsText), help: text.ConditionHelpString, parts: 1},
	"timestamp":       {say: ofWritten(text.ConditionTime), help: text.ConditionHelpTimestamp, parts: 1},
	"duration":        {say: ofWritten(text.ConditionDuration), help: text.ConditionHelpDuration, parts: 1},
	"getFullYear":     {say: ofTime(text.ConditionYear, nil), help: text.ConditionHelpYear, parts: 1},
	"getMonth":        {say: ofTime(text.ConditionMonthNumber, text.ConditionMonth), help: text.ConditionHelpMonth, parts: 1},
	"getDate":         {say: ofTime(text.ConditionDay, nil), help: text.ConditionHelpDay, parts: 1},
	"getDayOfMonth":   {say: ofTime(text.ConditionDayFromZero, nil), help: text.ConditionHelpDayFromZero, parts: 1},
	"getDayOfWeek":    {say: ofTime(text.ConditionWeekdayNumber, text.ConditionWeekday), help: text.ConditionHelpWeekday, parts: 1},
	"getDayOfYear":    {say: ofTime(text.ConditionYearDay, nil), help: text.ConditionHelpYearDay, parts: 1},
	"getHours":        {say: ofTime(text.ConditionHour, nil), help: text.ConditionHelpHour, parts: 1},
	"getMinutes":      {say: ofTime(text.ConditionMinute, nil), help: text.ConditionHelpMinute, parts: 1},
	"getSeconds":      {say: ofTime(text.ConditionSecond, nil), help: text.ConditionHelpSecond, parts: 1},
	"getMilliseconds": {say: ofTime(text.ConditionMillisecond, nil), help: text.ConditionHelpMillisecond, parts: 1},
	"spent":           {say: ofEarlier(func(of []text.Message) text.Message { return text.ConditionSpent(of[0], of[1]) }, 2), help: text.ConditionHelpSpent, parts: 2},
	"calls":           {say: ofEarlier(func(of []text.Message) text.Message { return text.ConditionCalls(of[0]) }, 1), help: text.ConditionHelpCalls, parts: 1},
	"distinct":        {say: ofEarlier(func(of []text.Message) text.Message { return text.ConditionDistinct(of[0], of[1]) }, 2), help: text.ConditionHelpDistinct, parts: 2},
	"after":           {say: ofWritten(text.ConditionAfter), deny: ofWritten(text.ConditionAfterNot), help: text.ConditionHelpAfter, parts: 1},
}

func sayIn(value, list text.Message) text.Message { return text.ConditionIn(list, value) }

func denyIn(value, list text.Message) text.Message { return text.ConditionInNot(list, value) }

func sayMap(name, list, it text.Message) text.Message { return text.ConditionMap(it, name, list) }

func sayReplace(value, old, replacement text.Message) text.Message {
	return text.ConditionReplace(value, old, replacement)
}

// The forms that are put in parentheses within others.
//
//nolint:gochecknoglobals // tables
var (
	sentences  = []condition.Form{condition.FormAnd, condition.FormOr, condition.FormIf, condition.FormFalse, "all", "exists", "exists_one"}
	arithmetic = []condition.Form{condition.FormPlus, condition.FormMinus, condition.FormTimes, condition.FormDivided, condition.FormModulo}
	junctions  = []condition.Form{condition.FormAnd, condition.FormOr, condition.FormIf, condition.FormFalse}
)

// describePhrase puts a phrase into words.
func describePhrase(p condition.Phrase) text.Message {
	w, known := wordings[p.Form]
	if !known || len(p.Parts) < w.parts {
		return text.Code(string(p.Form))
	}
	parts := make([]text.Message, len(p.Parts))
	for i, part := range p.Parts {
		parts[i] = describePhrase(part)
		if slices.Contains(junctions, p.Form) && slices.Contains(sentences, part.Form) || slices.Contains(arithmetic, p.Form) && slices.Contains(arithmetic, part.Form) {
			parts[i] = text.Join("", text.Literal("("), parts[i], text.Literal(")"))
		}
	}
	if !p.Not {
		return w.say(&p, parts)
	}
	if w.deny == nil {
		return text.ConditionNot(w.say(&p, parts))
	}
	return w.deny(&p, parts)
}
