package groups

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/format"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/link"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/view"
)

type sample struct {
	Messages []sampled // the latest messages of the sample, which the page lists
	Of       int       // number of messages in the sample
	All      bool      // the sample holds all messages of the error group
	Versions []version
	Without  int    // messages of the sample that have none of the version headers
	Headers  string // names of the version headers
	Problem  string // the reason for which there is no sample
}

// sampled is a message with its cause in parts. Words that some of the shown messages do not contain are marked.
type sampled struct {
	api.Message
	Cause []format.Part
}

const sampledCause = 160 // characters of a cause that are shown; the middle of a longer cause is left out

func sampledOf(messages []api.Message) []sampled {
	causes := make([]string, len(messages))
	for i, m := range messages {
		causes[i] = format.Middle(sampledCause, m.Cause)
	}
	parts := format.Differing(causes)
	list := make([]sampled, len(messages))
	for i, m := range messages {
		list[i] = sampled{m, parts[i]}
	}
	return list
}

type version struct {
	Header   string
	Value    string // "": the header has no value
	Link     string // address of the messages with this value; "" when no filter can find them
	Messages int
	First    time.Time
	Last     time.Time
}

// Shares returns the share of each version, and then the share of the messages without a version.
func (s sample) Shares() []string {
	var parts []int64
	for _, v := range s.Versions {
		parts = append(parts, int64(v.Messages))
	}
	return format.Shares(append(parts, int64(s.Without)))
}

const (
	sampledMessages = 200
	shownMessages   = 10
)

// sample loads the latest messages of an error group. If the API returns an error, the page shows the error instead of
// the messages.
func (p *Pages) sample(r *http.Request, id string) (sample, error) {
	s := sample{Headers: strings.Join(p.VersionHeaders, ", ")}
	var answer struct {
		Messages []api.Message `json:"messages"`
		Next     string        `json:"next_cursor"`
	}
	query := url.Values{"group_id": {id}, "limit": {strconv.Itoa(sampledMessages)}, "omit": {"payload"}}
	if err := p.API.Get(r, api.Endpoint("messages"), query, &answer); err != nil {
		_, problem, err := view.ProblemOf(err)
		if err == nil {
			s.Problem = problem.Message
		}
		return s, err
	}
	s.Of, s.All = len(answer.Messages), answer.Next == ""
	s.Versions, s.Without = versions(answer.Messages, p.VersionHeaders)
	for i := range s.Versions {
		s.Versions[i].Link = s.Versions[i].messages(id)
	}
	s.Messages = sampledOf(answer.Messages[:min(len(answer.Messages), shownMessages)])
	return s, nil
}

func versions(messages []api.Message, names []string) (list []version, without int) {
	type pair struct{ header, value string }
	at := map[pair]int{}
	for _, m := range messages {
		header, ok := versionHeader(m, names)
		if !ok {
			without++
			continue
		}
		key := pair{header.Key, textOf(header)}
		i, known := at[key]
		if !known {
			i, at[key] = len(list), len(list)
			list = append(list, version{Header: key.header, Value: key.value, First: m.CreatedAt, Last: m.CreatedAt})
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
	slices.SortStableFunc(list, func(a, b version) int { return cmp.Compare(b.Messages, a.Messages) })
	return list, without
}

func versionHeader(m api.Message, names []string) (api.Header, bool) {
	for _, name := range names {
		if i := slices.IndexFunc(m.Headers, func(h api.Header) bool { return strings.EqualFold(h.Key, name) }); i >= 0 {
			return m.Headers[i], true
		}
	}
	return api.Header{}, false
}

func textOf(h api.Header) string {
	switch {
	case h.Value == nil:
		return ""
	case h.Value.Encoding == "base64":
		return "base64:" + h.Value.Data
	default:
		return h.Value.Data
	}
}

// messages returns the URL of a list: the messages of the error group whose header has this value. It returns "" for a
// missing or masked value, and for a value that is not text, because searches cannot name such values.
func (v version) messages(group string) string {
	if v.Value == "" || v.Value == api.Mask || strings.HasPrefix(v.Value, "base64:") {
		return ""
	}
	return link.To(link.Messages, "group_id", group, "header", v.Header+"="+v.Value)
}
