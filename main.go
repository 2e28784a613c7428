// Command redrivectl is the operator's command for dead-letter queues.
package main

import (
	"os"

	"github.com/redrivectl/redrivectl/cmd"
)

func main() { os.Exit(cmd.Main()) }
