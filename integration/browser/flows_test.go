package browser

import "testing"

// TestFlows performs the work of operators, from the first page to the result. The flows share a site: the first one
// uses only the shop, the next ones run in parallel, most of them with their own topics, and the last one archives
// finished messages.
func TestFlows(t *testing.T) {
	t.Parallel()
	site := NewSite(t)
	t.Run("night", func(t *testing.T) { night(t, site.For(t)) })
	t.Run("day", func(t *testing.T) {
		for name, flow := range map[string]func(*testing.T, *Site){
			"messages": messages,
			"audit":    auditing,
			"views":    sharing,
			"edit":     editing,
			"redrive":  redriving,
			"facets":   facets,
			"groups":   groups,
			"topics":   topics,
			"silence":  silence,
			"redirect": redirecting,
			"hostile":  hostile,
			"large":    large,
			"tokens":   tokens,
			"search":   searching,
			"keyboard": keyboard,
			"palette":  palette,
			"plain":    plainPages,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				flow(t, site.For(t))
			})
		}
	})
	t.Run("archive", func(t *testing.T) { archive(t, site.For(t)) })
}
