package frameworks_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// languages names the language of a block of the page by the extension of its file.
var languages = map[string]string{".go": "go", ".java": "java", ".js": "js", ".json": "json", ".properties": "properties", ".xml": "xml"}

// TestPageShowsTheFilesThatRun: each file of a consumer is a block of docs/getting-started.md, and each block in the
// language of such a file is one of these files.
func TestPageShowsTheFilesThatRun(t *testing.T) {
	t.Parallel()
	page := check.Must(os.ReadFile("../../docs/getting-started.md"))(t)
	var blocks []string
	for _, block := range regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```$").FindAllStringSubmatch(string(page), -1) {
		if block[1] != "sh" && block[1] != "yaml" {
			blocks = append(blocks, block[1]+"\n"+block[2])
		}
	}
	files := 0
	check.NoError(t, filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		language, found := languages[filepath.Ext(path)]
		folder := filepath.Dir(path)
		if err != nil || !found || folder == "." || folder == "order" || filepath.Base(path) == "package-lock.json" {
			return err
		}
		files++
		text := check.Must(os.ReadFile(path))(t)
		check.True(t, slices.Contains(blocks, language+"\n"+string(text)), "the page has no block that equals %s", path)
		return nil
	}))
	check.Len(t, blocks, files, "blocks of files in %s", "docs/getting-started.md")
}
