// Package page is the web page for people: static files, which know no more than
// the tree over HTTP of [agent9/fsys/export/web].
//
//	/               the page, if the client accepts HTML; otherwise the tree
//	/page/NAME      its style and its scripts
//
// Nothing in them is secret, so they are given to everybody; what they show is
// asked for with the token of who looks. The token is in the tab's sessionStorage
// and in the Authorization header of each request, so that no request of another
// page's making carries it. What agents and models wrote is only ever put in
// as text: the policy that the page is served with knows neither inline scripts
// nor a way to make markup of a string.
package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed files
var files embed.FS

const index = "index.html"

// policy lets the page do what it does, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"base-uri 'none'; frame-ancestors 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

var types = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
}

// A Page serves the files.
type Page struct {
	at map[string]*file // by path of the URL
}

// New returns the page.
func New() *Page {
	p := &Page{at: map[string]*file{}}
	entries, err := files.ReadDir("files")
	if err != nil {
		panic(err) // it was built without
	}
	for _, e := range entries {
		content, err := files.ReadFile("files/" + e.Name())
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(content)
		f := &file{content, packed(content), types[path.Ext(e.Name())], hex.EncodeToString(sum[:8])}
		if e.Name() == index {
			p.at["/"] = f
			continue
		}
		p.at["/page/"+e.Name()] = f
	}
	return p
}

// Answers returns what answers r, or nil if r does not ask for the page.
func (p *Page) Answers(r *http.Request) http.Handler {
	f := p.at[r.URL.Path]
	if f == nil || r.Method != http.MethodGet && r.Method != http.MethodHead || r.URL.Path == "/" && !accepts(r, "Accept", "text/html") {
		return nil
	}
	return f
}

// accepts reports whether a header of r, such as Accept, names what is wanted.
// A browser that wants to show the answer names text/html, and other clients
// do not.
func accepts(r *http.Request, header, wanted string) bool {
	for part := range strings.SplitSeq(strings.Join(r.Header.Values(header), ","), ",") {
		name, quality, _ := strings.Cut(part, ";")
		if strings.EqualFold(strings.TrimSpace(name), wanted) && strings.ReplaceAll(quality, " ", "") != "q=0" {
			return true
		}
	}
	return false
}

type file struct {
	content []byte
	packed  []byte // by gzip
	kind    string
	sum     string
}

func packed(content []byte) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	w.Write(content)
	w.Close()
	return b.Bytes()
}

// ServeHTTP sends the file, unless the client has it.
func (f *file) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache")
	h.Set("Vary", "Accept, Accept-Encoding")
	content, tag := f.content, f.sum
	if accepts(r, "Accept-Encoding", "gzip") {
		content, tag = f.packed, f.sum+"-gzip"
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("Etag", `"`+tag+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}
