//go:build !crashpoints

package cmd

// storeVFS names the file layer of the store: the operating system's.
func storeVFS() string { return "" }
