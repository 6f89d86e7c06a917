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

type groupSample struct {
	Messages []message // the latest of the sample
	Of       int       // number of messages in the sample
	All      bool      // the sample holds all messages of the group
	Versions []groupVersion
	Without  int    // messages of the sample without any of the headers
	Headers  string // names of the version headers
	Problem  string // the reason for which there is no sample
}

type groupVersion struct {
	Header   string
	Value    string // "": the header has no value
	Link     string // address of the messages with it; "" when no filter can find them
	Messages int
	First    time.Time
	Last     time.Time
}

func (s groupSample) Share(n int) float64 { return float64(n) / float64(max(1, s.Of)) }

const (
	sampledMessages = 200
	shownMessages   = 10
)

// sample loads the latest messages of a group. A page shows an error of the API in their place.
func (c *Console) sample(r *http.Request, id string) (groupSample, error) {
	s := groupSample{Headers: strings.Join(c.cfg.VersionHeaders, ", ")}
	var answer listAnswer
	query := url.Values{"group_id": {id}, "limit": {strconv.Itoa(sampledMessages)}, "omit": {"payload"}}
	if err := c.api.get(r, endpoint("messages"), query, &answer); err != nil {
		_, problem, err := problemOf(err)
		if err == nil {
			s.Problem = problem.Message
		}
		return s, err
	}
	s.Of, s.All = len(answer.Messages), answer.Next == ""
	s.Versions, s.Without = versions(answer.Messages, c.cfg.VersionHeaders)
	for i := range s.Versions {
		s.Versions[i].Link = s.Versions[i].messages(id)
	}
	s.Messages = answer.Messages[:min(len(answer.Messages), shownMessages)]
	return s, nil
}

func versions(messages []message, names []string) (list []groupVersion, without int) {
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

func (m message) version(names []string) (header, bool) {
	for _, name := range names {
		if i := slices.IndexFunc(m.Headers, func(h header) bool { return strings.EqualFold(h.Key, name) }); i >= 0 {
			return m.Headers[i], true
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

// messages returns the address of the group's messages of that version; "" for masked values and for bytes.
func (v groupVersion) messages(group string) string {
	if v.Value == "" || v.Value == "***" || strings.HasPrefix(v.Value, "base64:") {
		return ""
	}
	return to("/messages", "group_id", group, "header", v.Header+"="+v.Value)
}
