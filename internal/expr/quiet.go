package expr

import (
	"errors"
	"regexp"
)

// said is what CEL says of itself in an error. What it says of the values, which
// come from messages and from providers' answers, is not in it.
var said = regexp.MustCompile(`^(no such overload|no such key|no such attribute|` +
	`type conversion error from '[a-z0-9_.A-Z]+' to '[a-z0-9_.A-Z]+'|(unsigned )?(integer|timestamp|duration) overflow|` +
	`index out of range|index \d+ out of range|division by zero|modulus by zero|illegal base64 data at input byte \d+|` +
	`operation cancelled: actual cost limit exceeded|invalid RFC 3339 timestamp|error parsing regexp|unknown time zone|error during formatting)`)

// Quiet is an error of an evaluation without any value in it: CEL's own errors
// quote the texts that they are about.
func Quiet(err error) error {
	if err == nil {
		return nil
	}
	if s := said.FindString(err.Error()); s != "" {
		return errors.New(s)
	}
	return errors.New("the expression fails on it")
}
