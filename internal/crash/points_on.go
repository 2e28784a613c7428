//go:build crashpoints

package crash

// points lists every boundary in the order in which a recovery passes them. A
// test compares it with the calls of At in the source.
var points = []Point{}
