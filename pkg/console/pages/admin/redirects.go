package admin

import (
	"net/http"
	"strconv"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/console/internal/api"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/link"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/request"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/session"
	"github.com/dlq-manager/dlq-manager/pkg/console/internal/view"
)

// Redirects is the page of the redirects of original topics. The form sends its fields in the address of the preview,
// and nothing is stored before the preview is confirmed.
type Redirects struct {
	API      api.Client
	Renderer *view.Renderer
}

type redirect struct {
	Topic     string    `json:"topic"`
	Target    string    `json:"target"`
	Version   int64     `json:"version"`
	Reason    string    `json:"reason"`
	UpdatedAt time.Time `json:"updated_at"`
	UpdatedBy string    `json:"updated_by"`
}

type redirectPreview struct {
	Counts   api.Counts `json:"counts"`
	Selected int64      `json:"selected"`
	Sendable int64      `json:"sendable"`
	Groups   []struct {
		Topic    string `json:"topic"`
		Messages int64  `json:"messages"`
		Class    string `json:"class"`
		Reason   string `json:"reason"`
	} `json:"groups"`
}

// Not returns how many of the selected messages cannot be sent.
func (p redirectPreview) Not() int64 { return p.Selected - p.Sendable }

type redirectsPage struct {
	Redirects []shownRedirect
	Topic     string // topic in the form
	Target    string
	Reason    string
	Version   int64 // version of the redirect that was previewed; 0: the topic had none
	Preview   *redirectPreview
	Current   *redirect // redirect of Topic; nil: there is none
	Remove    bool      // the preview shows the effect of removing the redirect in Current
	Why       string    // the reason for which the viewer cannot set a redirect; "": the viewer can
}

type shownRedirect struct {
	redirect
	Why string // the reason for which the viewer cannot change the redirect; "": the viewer can
}

// Show lists the redirects, and shows the form with the preview that the address requests.
func (p *Redirects) Show(w http.ResponseWriter, r *http.Request) error {
	var listed struct {
		Redirects []redirect `json:"redirects"`
	}
	if err := p.API.Get(r, api.Endpoint("redirects"), nil, &listed); err != nil {
		return err
	}
	asked, v := r.URL.Query(), session.ViewerOf(r)
	data := redirectsPage{Topic: asked.Get("topic"), Target: asked.Get("target"), Reason: asked.Get("reason"), Remove: asked.Get("remove") != ""}
	if d := view.DraftOf(r); d.Sent() {
		data.Topic, data.Target, data.Reason = request.Text(r, "topic"), request.Text(r, "target"), request.Text(r, "reason")
		data.Remove = d.Path != link.Redirects
	}
	for _, one := range listed.Redirects {
		data.Redirects = append(data.Redirects, shownRedirect{one, v.Why("admin", one.Topic)})
		if one.Topic == data.Topic {
			data.Current, data.Version = &one, one.Version
		}
	}
	if data.Why = v.Why("admin"); data.Topic != "" {
		data.Why = v.Why("admin", data.Topic)
	}
	shown := view.Page{Title: "Redirects", Nav: link.Topics}
	status := http.StatusOK
	if err := p.preview(r, &data); err != nil {
		if status, shown.Problem, err = view.ProblemOf(err); err != nil {
			return err
		}
	}
	shown.Data = data
	return p.Renderer.Render(w, r, status, "redirects", shown)
}

// preview requests the dry run of the form's change, if the form is complete and the viewer may make the change.
func (p *Redirects) preview(r *http.Request, data *redirectsPage) error {
	var answer struct {
		Preview *redirectPreview `json:"preview"`
	}
	path := api.Endpoint("redirects", data.Topic)
	var err error
	switch {
	case data.Topic == "" || data.Why != "":
		return nil
	case data.Remove && data.Current != nil:
		err = p.API.Send(r, http.MethodDelete, link.To(path, "dry_run", "true"), nil, &answer)
	case data.Target != "" && !data.Remove:
		body := map[string]any{"target": data.Target, "dry_run": true}
		err = p.API.Send(api.WithoutKey(r), http.MethodPut, path, body, &answer)
	}
	data.Preview = answer.Preview
	return err
}

// Save creates or replaces the redirect in the form, unless it has changed since the preview.
func (p *Redirects) Save(w http.ResponseWriter, r *http.Request) error {
	body := request.Body(r)
	body["target"] = request.Text(r, "target")
	return p.change(w, r, http.MethodPut, api.Endpoint("redirects", request.Text(r, "topic")), body, "redirected")
}

// Remove deletes the redirect of the topic in the form, unless it has changed since the preview.
func (p *Redirects) Remove(w http.ResponseWriter, r *http.Request) error {
	path := link.To(api.Endpoint("redirects", request.Text(r, "topic")), "reason", request.Text(r, "reason"))
	return p.change(w, r, http.MethodDelete, path, nil, "redirect-gone")
}

func (p *Redirects) change(w http.ResponseWriter, r *http.Request, method, path string, body any, done string) error {
	version, err := strconv.ParseInt(r.PostFormValue("version"), 10, 64)
	if err != nil {
		return &api.Error{Status: http.StatusBadRequest, Message: "version: must be a whole number"}
	}
	if err := p.API.If(version).Send(r, method, path, body, nil); err != nil {
		return view.Answered(err, func(problem *view.Problem) error { return p.Renderer.ShowAgain(w, r, problem) })
	}
	return view.RedirectDone(w, r, done, link.Redirects)
}
