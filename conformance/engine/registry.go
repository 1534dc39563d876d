//go:build unix

package engine

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"runtime"
	"sync"
	"testing"
	"time"
)

// Registry serves one image, box:latest, as the OCI distribution specification
// says.
type Registry struct {
	Host string // and port, the first part of the image's name

	manifest []byte
	name     string // of the manifest, by its sum
	layer    string
	blobs    map[string][]byte

	mu    sync.Mutex
	stall *Stall
}

// Stall is what becomes of one pull of the image that does not come to its
// end.
type Stall struct {
	Asked chan struct{} // closed when half of the layer has been sent
	Left  chan struct{} // closed when who asked for it has gone
}

// StartRegistry serves an image of this root file system until t ends.
func StartRegistry(t testing.TB, root io.Reader) *Registry {
	t.Helper()
	plain, err := io.ReadAll(root)
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	w.Write(plain)
	w.Close()
	r := &Registry{blobs: map[string][]byte{}}
	layer := r.add("application/vnd.docker.image.rootfs.diff.tar.gzip", packed.Bytes())
	r.layer = layer["digest"].(string)
	config, _ := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "config": map[string]any{"Cmd": []string{"sh"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{sumOf(plain)}},
	})
	r.manifest, _ = json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": manifestType,
		"config": r.add("application/vnd.docker.container.image.v1+json", config), "layers": []any{layer},
	})
	r.name = sumOf(r.manifest)
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	r.Host = server.Listener.Addr().String()
	return r
}

const manifestType = "application/vnd.docker.distribution.manifest.v2+json"

// add takes in a blob and returns its description.
func (r *Registry) add(mediaType string, data []byte) map[string]any {
	r.blobs[sumOf(data)] = data
	return map[string]any{"mediaType": mediaType, "digest": sumOf(data), "size": len(data)}
}

// Stall makes the next pull slow from the middle on, and never come to its end.
func (r *Registry) Stall() *Stall {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stall = &Stall{Asked: make(chan struct{}), Left: make(chan struct{})}
	return r.stall
}

func (r *Registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	name := path.Base(req.URL.Path)
	data, ok := r.blobs[name]
	switch {
	case req.URL.Path == "/v2/":
		return
	case req.URL.Path == "/v2/box/manifests/latest", req.URL.Path == "/v2/box/manifests/"+r.name:
		data = r.manifest
		w.Header().Set("Content-Type", manifestType)
		w.Header().Set("Docker-Content-Digest", r.name)
	case !ok:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}`)
		return
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(data)))
	stall := r.stalled(name)
	if stall == nil {
		w.Write(data)
		return
	}
	w.Write(data[:len(data)/2])
	http.NewResponseController(w).Flush()
	close(stall.Asked)
	defer close(stall.Left)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for i := len(data) / 2; i < len(data)-1; i++ {
		select {
		case <-tick.C: // an engine sees that its client has gone when it has to tell it something
			w.Write(data[i : i+1])
			http.NewResponseController(w).Flush()
		case <-req.Context().Done():
			return
		}
	}
}

// stalled returns what is to become of a request for the blob; nil: an answer.
func (r *Registry) stalled(name string) *Stall {
	r.mu.Lock()
	defer r.mu.Unlock()
	if name != r.layer {
		return nil
	}
	s := r.stall
	r.stall = nil
	return s
}

// sumOf names data as registries do.
func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}
