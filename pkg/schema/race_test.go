//go:build race

package schema

// raceMemory is how many times more memory a test may allocate with the race detector.
const raceMemory = 2
