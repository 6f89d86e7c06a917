package console

import "net/http"

// Routes lists every page and every target of a form.
func (c *Console) Routes() []Route {
	return append(c.signInRoutes(), []Route{
		{http.MethodGet, "/", c.page(c.overview)},
		{http.MethodGet, "/messages", c.page(c.messageList(messagesPath))},
		{http.MethodGet, "/messages/chosen", c.page(c.chosenMessages)}, // more specific than /messages/{id}
		{http.MethodGet, "/messages/export", c.page(c.exportMessages)},
		{http.MethodPost, "/messages/columns", c.page(c.chooseColumns)},
		{http.MethodGet, "/archive", c.page(c.messageList(archivePath))},
		{http.MethodGet, "/topics", c.page(c.listTopics)},
		{http.MethodGet, "/topics/mapping", c.page(c.showMapping)},
		{http.MethodPost, "/topics/mapping", c.page(c.replaceMapping)},
		{http.MethodGet, quarantinePath, c.page(c.listQuarantine)},
		{http.MethodPost, "/quarantine/{id}/retry", c.page(c.orderQuarantined(http.MethodPost, "trying", "retry"))},
		{http.MethodPost, "/quarantine/{id}/delete", c.page(c.orderQuarantined(http.MethodDelete, "record-deleted"))},
		{http.MethodGet, "/audit", c.page(c.listChanges)},
		{http.MethodGet, "/groups", c.page(c.listGroups)},
		{http.MethodGet, "/groups/{id}", c.page(c.showGroup)},
		{http.MethodPost, "/groups/{id}/note", c.page(c.noteGroup)},
		{http.MethodGet, "/redrives", c.page(c.listRedrives)},
		{http.MethodGet, "/redrives/new", c.page(c.newRedrive)},
		{http.MethodPost, "/redrives/new", c.page(c.startRedrive)},
		{http.MethodGet, "/redrives/{id}", c.page(c.showRedrive)},
		{http.MethodPost, "/redrives/{id}/pause", c.page(c.moveRedrive("pause"))},
		{http.MethodPost, "/redrives/{id}/resume", c.page(c.moveRedrive("resume"))},
		{http.MethodPost, "/redrives/{id}/cancel", c.page(c.moveRedrive("cancel"))},

		{http.MethodGet, "/messages/{id}", c.page(c.messagePage(false))},
		{http.MethodGet, "/messages/{id}/payload", c.page(c.download(false))},
		{http.MethodGet, "/messages/{id}/edit", c.page(c.showEdit)},
		{http.MethodPost, "/messages/{id}/edit", c.page(c.takeEdit)},
		{http.MethodPost, "/messages/{id}/retry", c.page(c.orderMessage("retry", "retried"))},
		{http.MethodPost, "/messages/{id}/requeue", c.page(c.orderMessage("requeue", "requeued"))},
		{http.MethodPost, "/messages/{id}/dead", c.page(c.orderMessage("dead", "dead"))},
		{http.MethodPost, "/messages/{id}/delete", c.page(c.deleteMessage)},
		{http.MethodPost, "/messages/{id}/origin", c.page(c.orderMessage("origin", "origin"))},
		{http.MethodGet, "/archive/{id}", c.page(c.messagePage(true))},
		{http.MethodGet, "/archive/{id}/payload", c.page(c.download(true))},
		{http.MethodPost, "/archive/{id}/restore", c.page(c.orderMessage("restore", "restored"))},

		{http.MethodPost, "/theme", c.open(c.setTheme)},
		{http.MethodGet, "/static/{version}/{file}", http.HandlerFunc(c.assets.serve)},
	}...)
}
