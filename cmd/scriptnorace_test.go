//go:build !race

package cmd

// manyMessages is $MANY of the scripts.
const manyMessages = "10000"
