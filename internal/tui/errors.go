package tui

import "errors"

// errNoReason stands where the audit log must be able to explain something.
var errNoReason = errors.New("a reason is needed: the audit log needs it")

// errNoNumber stands where a number was to be typed.
var errNoNumber = errors.New("a number is needed")
