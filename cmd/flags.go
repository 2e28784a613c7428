package cmd

import (
	"errors"
	"fmt"
	"time"

	"github.com/redrivectl/redrivectl/internal/config"
	"github.com/spf13/cobra"
)

// lengthFlag is a flag that takes a length of time, written as in the config:
// 90s, 2h, 30d.
type lengthFlag struct {
	to   *time.Duration
	zero bool // 0s is one too
}

// Set reads what was typed.
func (f lengthFlag) Set(typed string) error {
	d, err := config.ParseDuration(typed)
	switch {
	case err != nil:
		return err
	case d == 0 && !f.zero:
		return errors.New("it must be longer than 0s")
	}
	*f.to = d
	return nil
}

// String is the value as it would be typed; empty: none.
func (f lengthFlag) String() string {
	if f.to == nil || *f.to == 0 {
		return ""
	}
	return config.FormatDuration(*f.to)
}

// Type is what the help calls the value.
func (lengthFlag) Type() string { return "duration" }

// momentFlag is a flag that takes a moment: RFC 3339, or a length of time before
// now.
type momentFlag struct {
	to  *time.Time
	now func() time.Time
}

// Set reads what was typed.
func (f momentFlag) Set(typed string) error {
	if t, err := time.Parse(time.RFC3339, typed); err == nil {
		*f.to = t
		return nil
	}
	d, err := config.ParseDuration(typed)
	if err != nil {
		return fmt.Errorf("%q is neither an RFC 3339 time nor a length of time such as 2h or 3d", typed)
	}
	*f.to = f.now().Add(-d)
	return nil
}

// String is the moment; empty: none.
func (f momentFlag) String() string {
	if f.to == nil || f.to.IsZero() {
		return ""
	}
	return utc(*f.to)
}

// Type is what the help calls the value.
func (momentFlag) Type() string { return "time" }

// completeFrom turns a list into cobra's completion function.
func completeFrom(names func() []string) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return names(), cobra.ShellCompDirectiveNoFileComp
	}
}

// parsedFlag is a flag whose value is nil until it is typed.
type parsedFlag[T any] struct {
	to    **T
	parse func(string) (T, error)
	show  func(T) string
	kind  string
}

// Set reads what was typed.
func (f parsedFlag[T]) Set(typed string) error {
	v, err := f.parse(typed)
	if err == nil {
		*f.to = &v
	}
	return err
}

// String is the value as it would be typed; empty: none.
func (f parsedFlag[T]) String() string {
	if f.to == nil || *f.to == nil {
		return ""
	}
	return f.show(**f.to)
}

// Type is what the help calls the value.
func (f parsedFlag[T]) Type() string { return f.kind }
