package term

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

// Duration says a length of time in its two largest units: "3d4h", "2h5m",
// "1m30s", "45s", "350ms". A negative one has a minus sign in front.
func Duration(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + Duration(max(-d, 0)) // max: the smallest duration has no positive twin
	case d == 0:
		return "0s"
	case d < time.Millisecond:
		return "<1ms"
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
	case d < time.Minute:
		return strconv.FormatInt(int64(d/time.Second), 10) + "s"
	case d < time.Hour:
		return twoUnits(d, time.Minute, "m", time.Second, "s")
	case d < day:
		return twoUnits(d, time.Hour, "h", time.Minute, "m")
	}
	return twoUnits(d, day, "d", time.Hour, "h")
}

func twoUnits(d, large time.Duration, l string, small time.Duration, s string) string {
	text := strconv.FormatInt(int64(d/large), 10) + l
	if rest := d % large / small; rest > 0 {
		text += strconv.FormatInt(int64(rest), 10) + s
	}
	return text
}

// Count writes a number with its thousands apart: "12,345".
func Count(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	var groups []string
	for len(digits) > 3 {
		groups = append([]string{digits[len(digits)-3:]}, groups...)
		digits = digits[:len(digits)-3]
	}
	return sign + strings.Join(append([]string{digits}, groups...), ",")
}

// Bytes writes a size in binary units: "512 B", "1.5 KiB".
func Bytes(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, prefix := float64(n)/unit, 0
	for value >= unit && prefix < len("KMGTPE")-1 {
		value /= unit
		prefix++
	}
	return fmt.Sprintf("%.1f %ciB", value, "KMGTPE"[prefix])
}
