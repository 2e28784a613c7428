package cmd

import (
	"os"
	"syscall"
)

// maxRSS is the most memory that an ended process had at once, in MiB.
func maxRSS(p *os.ProcessState) float64 {
	usage, ok := p.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	return float64(usage.Maxrss) / 1024 // from KiB, which is Linux's unit
}
