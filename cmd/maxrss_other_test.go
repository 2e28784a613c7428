//go:build !linux

package cmd

import "os"

// maxRSS knows the unit of Linux alone.
func maxRSS(*os.ProcessState) float64 { return 0 }
