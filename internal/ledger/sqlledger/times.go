package sqlledger

import (
	"fmt"
	"strconv"
	"time"
)

// timeLayout has a fixed width, so that times also sort as text.
const timeLayout = "2006-01-02T15:04:05.000Z"

// encode is t as the table stores it, to the millisecond below; the zero time
// is NULL.
func (f TimeFormat) encode(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	switch f {
	case UnixMilli:
		return t.UnixMilli()
	case UnixSeconds:
		return t.Unix()
	default:
		return t.UTC().Truncate(time.Millisecond).Format(timeLayout)
	}
}

// decode reads what a driver returns for a time column.
func (f TimeFormat) decode(v any) (time.Time, error) {
	switch x := v.(type) {
	case nil:
		return time.Time{}, nil
	case time.Time:
		return x.UTC(), nil
	case int64:
		return f.fromNumber(x)
	case float64:
		return f.fromNumber(int64(x))
	case []byte:
		return f.fromText(string(x))
	case string:
		return f.fromText(x)
	default:
		return time.Time{}, fmt.Errorf("time is a %T", v)
	}
}

func (f TimeFormat) fromNumber(n int64) (time.Time, error) {
	switch f {
	case UnixMilli:
		return time.UnixMilli(n).UTC(), nil
	case UnixSeconds:
		return time.Unix(n, 0).UTC(), nil
	default:
		return time.Time{}, fmt.Errorf("time is the number %d, but time_format is %q", n, f)
	}
}

func (f TimeFormat) fromText(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if f != Text {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return time.Time{}, fmt.Errorf("time %q is no number", s)
		}
		return f.fromNumber(n)
	}
	return parseText(s)
}

// parseText reads RFC 3339 and SQLite's own form, which is in UTC.
func parseText(s string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07:00"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("time %q is not RFC 3339", s)
}
