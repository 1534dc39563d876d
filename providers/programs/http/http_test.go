package http_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"agent9/conformance"
	"agent9/fsys"
	"agent9/providers/programs"
	programshttp "agent9/providers/programs/http"
)

// does answers as the web service of a deed does.
func does(deed conformance.Deed, ns fsys.Node) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		trigger, err := io.ReadAll(r.Body)
		var t programs.Trigger
		if err == nil {
			err = json.Unmarshal(trigger, &t)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		switch deed {
		case conformance.Fail:
			http.Error(w, conformance.Why, http.StatusServiceUnavailable)
		case conformance.Hang:
			fsys.WriteFile(r.Context(), ns, "ctl", []byte("begun"))
			<-r.Context().Done()
		case conformance.Flood:
			w.Write(fsys.Line(map[string]string{"log": strings.Repeat("much ", 100_000)}))
		case conformance.Tell:
			http.Error(w, fmt.Sprint(r.Header), http.StatusUnauthorized)
		default:
			log := "kept " + t.Tick
			if t.Prompt != nil {
				w.Write(fsys.Line(map[string]string{"log": t.Prompt.Text}))
				return
			}
			w.Write(fsys.Line(map[string]any{
				"log": log, "state": map[string]string{"trigger": string(trigger)},
				"messages": []any{map[string]string{"to": "bob", "body": "kept"}},
				"alarms":   []any{map[string]string{"when": "+5m", "text": "look"}},
			}))
		}
	}
}

// served is the program that h answers for.
func served(t *testing.T, h http.HandlerFunc, secret string) programs.Program {
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return programshttp.New(programs.HTTP{URL: server.URL, Secret: &programs.Secret{Name: secret, Prefix: "Bearer "}}, server.Client())
}

func TestPrograms(t *testing.T) {
	conformance.TestPrograms(t, conformance.Programs{
		New: func(t *testing.T, deed conformance.Deed, ns fsys.Node) programs.Program {
			return served(t, does(deed, ns), "hook")
		},
		Impossible: func(t *testing.T) programs.Program {
			return served(t, does(conformance.Keep, nil), "one that is not there")
		},
	})
}
