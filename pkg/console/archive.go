package console

import "net/http"

// listArchive answers with the messages that are over for long enough. They are
// searched as the others are; nothing can be done to many at once.
func (c *Console) listArchive(w http.ResponseWriter, r *http.Request) error {
	return c.messageList(w, r, archivePath)
}
