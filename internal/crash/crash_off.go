//go:build !crashpoints

// Package crash marks the boundaries between steps at which a test may kill the
// process. In an ordinary build every mark is an empty function.
package crash

// At does nothing in this build.
func At(Point) {}

// Names is empty in this build.
func Names() []string { return nil }
