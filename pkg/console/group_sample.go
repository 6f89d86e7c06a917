package console

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// groupMessage is what a page of a group shows of a message.
type groupMessage struct {
	ID        string    `json:"id"`
	Topic     string    `json:"original_topic"`
	DLQTopic  string    `json:"dlq_topic"`
	Status    string    `json:"status"`
	Error     string    `json:"error_message"`
	CreatedAt time.Time `json:"created_at"`
	Headers   []header  `json:"headers"`
}

// groupSample are the latest messages of a group, and what they say of versions.
type groupSample struct {
	Messages []groupMessage // the latest of them
	Of       int            // how many were looked at
	All      bool           // these are all that there are
	Versions []groupVersion
	Without  int    // messages without any of the headers
	Headers  string // that were looked for
	Problem  string // why there are none
}

// groupVersion is what messages of one version have in common.
type groupVersion struct {
	Header   string
	Value    string // "": the header has none
	Link     string // messages with it; "" for what cannot be asked for
	Messages int
	First    time.Time
	Last     time.Time
}

// Share is the part of the sample that is of the version.
func (s groupSample) Share(n int) float64 { return float64(n) / float64(max(1, s.Of)) }

const (
	sampledMessages = 200
	shownMessages   = 10
)

// sample looks at the latest messages of a group. What the API cannot answer now is
// said in the sample: the rest of the page stands without it.
func (c *Console) sample(r *http.Request, id string) (groupSample, error) {
	s := groupSample{Headers: strings.Join(c.cfg.VersionHeaders, ", ")}
	var answer struct {
		Messages []groupMessage `json:"messages"`
		Next     string         `json:"next_cursor"`
	}
	query := url.Values{"group_id": {id}, "limit": {strconv.Itoa(sampledMessages)}, "omit": {"payload"}}
	if err := c.api.get(r, endpoint("messages"), query, &answer); err != nil {
		problem, err := problemOf(err)
		if err != nil {
			return s, err
		}
		s.Problem = problem.Message
		return s, nil
	}
	s.Of, s.All = len(answer.Messages), answer.Next == ""
	s.Versions, s.Without = versions(answer.Messages, c.cfg.VersionHeaders)
	for i := range s.Versions {
		s.Versions[i].Link = s.Versions[i].messages(id)
	}
	s.Messages = answer.Messages[:min(len(answer.Messages), shownMessages)]
	return s, nil
}

// versions counts messages by the first of the headers that each has.
func versions(messages []groupMessage, names []string) (list []groupVersion, without int) {
	type version struct{ header, value string }
	at := map[version]int{}
	for _, m := range messages {
		header, ok := m.version(names)
		if !ok {
			without++
			continue
		}
		key := version{header.Key, header.text()}
		i, known := at[key]
		if !known {
			i, at[key] = len(list), len(list)
			list = append(list, groupVersion{Header: key.header, Value: key.value, First: m.CreatedAt, Last: m.CreatedAt})
		}
		v := &list[i]
		v.Messages++
		if m.CreatedAt.Before(v.First) {
			v.First = m.CreatedAt
		}
		if m.CreatedAt.After(v.Last) {
			v.Last = m.CreatedAt
		}
	}
	slices.SortStableFunc(list, func(a, b groupVersion) int { return cmp.Compare(b.Messages, a.Messages) })
	return list, without
}

func (m groupMessage) version(names []string) (header, bool) {
	for _, name := range names {
		for _, h := range m.Headers {
			if strings.EqualFold(h.Key, name) {
				return h, true
			}
		}
	}
	return header{}, false
}

func (h header) text() string {
	switch {
	case h.Value == nil:
		return ""
	case h.Value.Encoding == "base64":
		return "base64:" + h.Value.Data
	default:
		return h.Value.Data
	}
}

// messages is the address of the group's messages of that version. Masked values and
// such as are no text cannot be asked for.
func (v groupVersion) messages(group string) string {
	if v.Value == "" || v.Value == "***" || strings.HasPrefix(v.Value, "base64:") {
		return ""
	}
	return to("/messages", "group_id", group, "header", v.Header+"="+v.Value)
}
