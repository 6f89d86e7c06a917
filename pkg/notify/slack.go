package notify

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// slack sends notifications as text to an incoming webhook of Slack or of a compatible receiver.
type slack struct {
	target target
	words  words
}

type slackMessage struct {
	Text        string `json:"text"`
	UnfurlLinks bool   `json:"unfurl_links"`
	UnfurlMedia bool   `json:"unfurl_media"`
	Markdown    bool   `json:"mrkdwn"`
}

func (s *slack) send(ctx context.Context, n repository.Notification) error {
	d, err := s.words.unpack(n)
	if err != nil {
		return err
	}
	text := escaper.Replace(summary(n, d))
	if link := s.words.link(n); link != "" {
		text += "\n" + escaper.Replace(link)
	}
	body, err := json.Marshal(slackMessage{Text: text})
	if err != nil {
		return err
	}
	header := http.Header{}
	header.Set("Content-Type", "application/json; charset=utf-8")
	return s.target.post(ctx, body, header)
}

// escaper keeps text from mentioning people or renaming links: it escapes three special characters, and the @ that some
// receivers take for a mention.
var escaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "@", "@\u200b")
