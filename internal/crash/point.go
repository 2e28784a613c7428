package crash

// Point is the name of a step boundary. Each is an untyped string constant of
// its caller's, so that a build without the tag keeps none of them.
type Point string
