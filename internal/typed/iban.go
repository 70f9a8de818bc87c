package typed

import (
	"strconv"
	"strings"
	"unicode"
)

// IBANValue is an International Bank Account Number (ISO 13616).
type IBANValue struct {
	Country string   // ISO 3166, two letters
	Groups  []string // of four characters
	Valid   bool     // length and checksum are right
}

// ibanLengths has the length of each country's IBANs.
const ibanLengths = " AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 EE20 EG29 ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 PT25 QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30"

// recognizeIBAN recognizes valid IBANs, and invalid ones whose name or groups of four show that an IBAN is meant.
func (m member) recognizeIBAN(v *Value, text string, _ int) bool {
	if len(text) > 64 {
		return false
	}
	compact := strings.ToUpper(strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, text))
	if len(compact) < 8 || len(compact) > 34 || !isLetter(compact[0]) || !isLetter(compact[1]) || !isDigit(compact[2]) || !isDigit(compact[3]) {
		return false
	}
	digits := 0
	for i := range len(compact) {
		if !isDigit(compact[i]) && !isLetter(compact[i]) {
			return false
		}
		if isDigit(compact[i]) {
			digits++
		}
	}
	at := strings.Index(ibanLengths, " "+compact[:2])
	length := 0
	if at >= 0 {
		length, _ = strconv.Atoi(ibanLengths[at+3 : at+5])
	}
	value := &IBANValue{Country: compact[:2], Valid: length == len(compact) && hasChecksum(compact)}
	for i := 0; i < len(compact); i += 4 {
		value.Groups = append(value.Groups, compact[i:min(i+4, len(compact))])
	}
	grouped := strings.Join(value.Groups, " ") == strings.ToUpper(strings.TrimSpace(text))
	if isLikely := m.isNamed(ibanName) || length > 0 && digits >= 8 && (grouped || m.isNamed(ibanWords)); !value.Valid && !isLikely {
		return false
	}
	v.Kind, v.IBAN = IBAN, value
	if !value.Valid {
		v.addWarning(IBANInvalid, text)
	}
	return true
}

// hasChecksum reports whether an IBAN is 1 modulo 97.
func hasChecksum(iban string) bool {
	rest := 0
	for _, c := range iban[4:] + iban[:4] {
		if c <= '9' {
			rest = (rest*10 + int(c-'0')) % 97
		} else {
			rest = (rest*100 + int(c-'A') + 10) % 97
		}
	}
	return rest == 1
}
