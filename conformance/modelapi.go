package conformance

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"agent9/fsys"
	"agent9/providers/models"
	"agent9/providers/models/httpapi"
)

// modelSecret is the key in these tests, which no error may have, and modelKey
// what its user calls it.
const (
	modelSecret = "k-secret-0123456789"
	modelKey    = "TEST_API_KEY"
)

// A ModelAPI is a driver of an HTTP API under test, with a server that speaks the
// API, and what it must make of it.
type ModelAPI struct {
	// New makes a provider. The empty BaseURL is Base, or Invalid.
	New  func(httpapi.Config) (models.Provider, error)
	Base string
	// Account is for New, where there is one.
	Account string
	Script  ModelScript
	// Compute is for [TestCompute], without the provider.
	Compute Compute
	// Real is in the names AGENT9_TEST_REAL_URL, _KEY, _ACCOUNT, _MODEL and
	// _EMBED of the environment: with one of the first three a real server is
	// tested too, with RealModel if MODEL is not there.
	Real, RealModel string

	Models   []models.Model // the list
	Sent     []ModelSent
	Answers  []ModelAnswer
	Refusals []ModelRefusal
}

// ModelSent is a request, as it is submitted and as the server gets it; or the
// reason for which it is not sent.
type ModelSent struct{ Name, Kind, Body, Want, Reason string }

// ModelAnswer is what a request is answered with. What is left empty is not
// looked at.
type ModelAnswer struct {
	Name, Kind string
	Say        string // or
	Body       string
	Text       string
	Finish     string
	Result     string // of the composed or whole response, a part
	Type       string // of Result
	Usage      models.Usage
}

// ModelRefusal is what fails, for a reason. TARGET in it is the server.
type ModelRefusal struct {
	Say    string
	Code   fsys.Code
	Reason string
}

// Refused is a refusal of what say asks for.
func Refused(say string, code fsys.Code, reason string) ModelRefusal {
	return ModelRefusal{say, code, reason}
}

// TestModelAPI checks a driver.
func TestModelAPI(t *testing.T, a ModelAPI) {
	s := NewModelServer(t, a.Script)
	p := a.open(t, s.URL)
	t.Run("compute", func(t *testing.T) {
		c := a.Compute
		c.Provider = p
		TestCompute(t, c)
	})
	t.Run("real", a.real)
	t.Run("config", a.config)
	t.Run("models", func(t *testing.T) {
		for range 2 {
			if got, err := p.Models(t.Context()); err != nil || !reflect.DeepEqual(got, a.Models) {
				t.Errorf("got %+v, %v, want %+v", got, err, a.Models)
			}
		}
	})
	t.Run("sent", a.sent)
	t.Run("answers", func(t *testing.T) {
		for _, c := range a.Answers {
			c.check(t, p, a.Compute.Model)
		}
	})
	t.Run("refusals", func(t *testing.T) {
		for _, c := range a.Refusals {
			c.check(t, p, a.Compute.Model)
		}
	})
	t.Run("redirected", a.redirected)
	t.Run("nobody there", a.nobodyThere)
	t.Run("silent", func(t *testing.T) {
		// A request that a server has taken and does not answer has cost its prompt.
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		usage, err := p.Run(ctx, models.Ask(a.Compute.Model, "silent"), func(models.Chunk) error { return nil })
		if fsys.CodeOf(err) != fsys.Timeout || usage.Input == 0 || !usage.Estimated {
			t.Errorf("got %+v, %v", usage, err)
		}
	})
}

func (a ModelAPI) open(t *testing.T, url string) models.Provider {
	t.Helper()
	p, err := a.New(httpapi.Config{BaseURL: url, Account: a.Account, Key: modelSecret, KeyName: modelKey})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// real tests a real server, if there is one: a model's words are its own.
func (a ModelAPI) real(t *testing.T) {
	env := func(name string) string { return os.Getenv("AGENT9_TEST_" + a.Real + "_" + name) }
	c := httpapi.Config{BaseURL: env("URL"), Account: env("ACCOUNT"), Key: env("KEY")}
	if c.BaseURL+c.Account+c.Key == "" {
		t.Skip("AGENT9_TEST_" + a.Real + "_URL, _KEY or _ACCOUNT is not set")
	}
	p, err := a.New(c)
	if err != nil {
		t.Fatal(err)
	}
	TestCompute(t, Compute{
		Provider: p,
		Model:    cmp.Or(env("MODEL"), a.RealModel),
		Embed:    env("EMBED"),
		Say:      "Say something short.",
		Slow:     "Write a very long story, of many thousands of words.",
		Bound:    30 * time.Second,
	})
}

func (a ModelAPI) config(t *testing.T) {
	p, err := a.New(httpapi.Config{Account: a.Account})
	if a.Base == "" && fsys.CodeOf(err) != fsys.Invalid {
		t.Errorf("without a URL: %v", err)
	} else if a.Base != "" && (err != nil || models.InfoOf(p).Target != a.Base) {
		t.Errorf("without a URL: %v, want %s", err, a.Base)
	}
	for _, url := range []string{"x", "localhost:1", "ftp://x", "http://", "http://u:p@x", "http://x/?key=1"} {
		if _, err := a.New(httpapi.Config{BaseURL: url, Account: a.Account}); fsys.CodeOf(err) != fsys.Invalid {
			t.Errorf("%q: got %v", url, err)
		}
	}
}

// ParseModelRequest reads a body of kind; empty is what the body says.
func ParseModelRequest(t *testing.T, kind, body string) models.Request {
	t.Helper()
	b, err := models.ParseBody([]byte(body))
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	req, err := models.ParseRequest(models.Kind(kind), b)
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return req
}

// RunModel returns the chunks of a run, and its outcome.
func RunModel(t *testing.T, p models.Provider, req models.Request) ([]models.Chunk, models.Usage, error) {
	t.Helper()
	var chunks []models.Chunk
	usage, err := p.Run(t.Context(), req, func(c models.Chunk) error { chunks = append(chunks, c); return nil })
	return chunks, usage, err
}

// sent checks what the server gets, and that it gets nothing of what is refused.
func (a ModelAPI) sent(t *testing.T) {
	s := NewModelServer(t, a.Script)
	p := a.open(t, s.URL)
	for _, c := range a.Sent {
		_, usage, err := RunModel(t, p, ParseModelRequest(t, c.Kind, c.Body))
		if c.Reason != "" {
			if fsys.CodeOf(err) != fsys.Invalid || fsys.ReasonOf(err) != c.Reason || usage != (models.Usage{}) || len(s.Bodies) > 0 {
				t.Errorf("%s %s: got %v, %+v, %d were sent; want %s", c.Name, c.Body, err, usage, len(s.Bodies), c.Reason)
			}
			continue
		}
		if err != nil || len(s.Bodies) != 1 {
			t.Errorf("%s %s: got %v, %d were sent", c.Name, c.Body, err, len(s.Bodies))
			continue
		}
		if sent := <-s.Bodies; sent != c.Want {
			t.Errorf("%s %s:\nsent %s\nwant %s", c.Name, c.Body, sent, c.Want)
		}
	}
}

func (c ModelAnswer) check(t *testing.T, p models.Provider, model string) {
	req := models.Ask(model, c.Say)
	if c.Body != "" {
		req = ParseModelRequest(t, c.Kind, c.Body)
	}
	name := cmp.Or(c.Name, c.Say, c.Body)
	chunks, usage, err := RunModel(t, p, req)
	if err != nil || len(chunks) == 0 {
		t.Errorf("%s: %v after %d chunks", name, err, len(chunks))
		return
	}
	answer := models.NewAnswer(req)
	text, finish := "", ""
	for _, chunk := range chunks {
		text, finish = text+chunk.Text, finish+chunk.Finish
		if err := answer.Add(chunk); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	last := chunks[len(chunks)-1]
	result := string(last.Result)
	if last.Result == nil {
		result = string(answer.Result(usage))
	}
	if c.Text != "" && text != c.Text || c.Finish != "" && finish != c.Finish || !strings.Contains(result, c.Result) || last.Type != c.Type || c.Usage != (models.Usage{}) && usage != c.Usage {
		t.Errorf("%s: got %q, %q, %q of type %q, %+v\nwant %+v", name, text, finish, result, last.Type, usage, c)
	}
}

func (c ModelRefusal) check(t *testing.T, p models.Provider, model string) {
	_, usage, err := RunModel(t, p, models.Ask(model, c.Say))
	want := strings.ReplaceAll(c.Reason, "TARGET", models.InfoOf(p).Target)
	if err == nil || fsys.CodeOf(err) != c.Code || fsys.ReasonOf(err) != want {
		t.Errorf("%s: got %v %q, want %v %q", c.Say, fsys.CodeOf(err), fsys.ReasonOf(err), c.Code, want)
		return
	}
	if strings.Contains(fmt.Sprintf("%v %+v", err, err), modelSecret) {
		t.Errorf("%s: the key is in %v", c.Say, err)
	}
	// Nobody pays for what was refused, but for what may have been worked on.
	status := strings.HasPrefix(c.Say, "status ")
	if refused := status && fsys.CodeOf(err) != fsys.Timeout; refused != (usage == models.Usage{}) {
		t.Errorf("%s: the usage is %+v", c.Say, usage)
	}
	if wait := models.RetryAfter(err); status != (wait == 9*time.Second) {
		t.Errorf("%s: to wait is %v", c.Say, wait)
	}
}

func (a ModelAPI) redirected(t *testing.T) {
	s := NewModelServer(t, a.Script)
	elsewhere := NewModelServer(t, ModelScript{Other: map[string]func(http.ResponseWriter, *http.Request, string){
		"/": func(w http.ResponseWriter, r *http.Request, _ string) {
			http.Redirect(w, r, s.URL+r.URL.Path, http.StatusTemporaryRedirect)
		},
	}})
	_, usage, err := RunModel(t, a.open(t, elsewhere.URL), models.Ask(a.Compute.Model, "hi"))
	if fsys.CodeOf(err) != fsys.Unavailable || !strings.Contains(fsys.ReasonOf(err), "redirects to "+s.URL) || usage != (models.Usage{}) || len(s.Bodies) > 0 {
		t.Errorf("got %v, %+v, and %d requests elsewhere", err, usage, len(s.Bodies))
	}
}

func (a ModelAPI) nobodyThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	p := a.open(t, "http://"+address)
	_, usage, err := RunModel(t, p, models.Ask(a.Compute.Model, "hi"))
	if fsys.CodeOf(err) != fsys.Unavailable || !strings.Contains(fsys.ReasonOf(err), "connection refused") || usage != (models.Usage{}) {
		t.Errorf("got %v, %+v", err, usage)
	}
	if _, err := p.Models(t.Context()); fsys.CodeOf(err) != fsys.Unavailable {
		t.Errorf("Models: got %v", err)
	}
}
