//go:build race

package cmd

// manyMessages is $MANY of the scripts: the race detector makes each cost ten times
// as much.
const manyMessages = "2000"
