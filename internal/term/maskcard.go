package term

import "strings"

// Card numbers have 13 to 19 digits (ISO/IEC 7812-1).
const (
	minCardDigits = 13
	maxCardDigits = 19
)

// maxCardRun is a card number's longest form: each digit but the last followed
// by a separator.
const maxCardRun = 2*maxCardDigits - 1

// maskCards hides runs of digits, with single spaces or dashes between them,
// that are card numbers: 13 to 19 digits with a correct check digit, in the
// ranges that card schemes use. Time stamps in milliseconds are not in them,
// and neither are digits within hexadecimal text.
func maskCards(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		if !isDigit(s[i]) {
			b.WriteByte(s[i])
			i++
			continue
		}
		end := i + digitRun(s[i:])
		if i > 0 && isHexLetter(s[i-1]) || end < len(s) && isHexLetter(s[end]) {
			b.WriteString(s[i:end])
		} else {
			maskCardsIn(&b, s[i:end])
		}
		i = end
	}
	return b.String()
}

// maskCardsIn looks at the groups of a run, alone and with their neighbours, as
// in "12 4111 1111 1111 1111 7".
func maskCardsIn(b *strings.Builder, run string) {
	for i := 0; i < len(run); {
		n := 0
		if i == 0 || !isDigit(run[i-1]) {
			n = cardLen(run[i:])
		}
		if n > 0 {
			b.WriteString(Masked)
			i += n
			continue
		}
		b.WriteByte(run[i])
		i++
	}
}

// cardLen is the length of the longest card number at the start of a run that
// ends where a group ends, or 0.
func cardLen(run string) int {
	for to := min(len(run), maxCardRun); to >= minCardDigits; to-- {
		if !isDigit(run[to-1]) || to < len(run) && isDigit(run[to]) {
			continue
		}
		if isCard(onlyDigits(run[:to])) {
			return to
		}
	}
	return 0
}

// digitRun measures the run at the start of s: digits with single separators,
// ending in a digit.
func digitRun(s string) int {
	end := 0
	for i := 0; i < len(s); i++ {
		switch {
		case isDigit(s[i]):
			end = i + 1
		case (s[i] == ' ' || s[i] == '-') && end == i:
		default:
			return end
		}
	}
	return end
}

func isCard(digits string) bool {
	if len(digits) < minCardDigits || len(digits) > maxCardDigits {
		return false
	}
	if digits[0] < '3' || digits[0] > '6' {
		if prefix := digits[:4]; prefix < "2221" || prefix > "2720" {
			return false
		}
	}
	return luhn(digits)
}

func luhn(digits string) bool {
	sum := 0
	for i := range len(digits) {
		d := int(digits[len(digits)-1-i] - '0')
		if i%2 == 1 {
			d *= 2
			if d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return sum%10 == 0
}

func onlyDigits(s string) string {
	return strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return r
		}
		return -1
	}, s)
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isHexLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'f' }

// hasDigits says that at least n digits occur in s.
func hasDigits(s string, n int) bool {
	for i := 0; i < len(s) && n > 0; i++ {
		if isDigit(s[i]) {
			n--
		}
	}
	return n <= 0
}
