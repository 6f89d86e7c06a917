package view

// Sizes returns the compressed size of each file in bytes.
func (a *Assets) Sizes() map[string]int {
	sizes := map[string]int{}
	for name, f := range a.files {
		sizes[name] = len(f.compressed)
	}
	return sizes
}
