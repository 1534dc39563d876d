package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/docker/docker/api/types/image"

	"agent9/fsys"
)

// pull fetches an image, without any credentials.
func (p *Provider) pull(ctx context.Context, name string, progress func(string)) error {
	progress("pulling " + name)
	body, err := p.api.ImagePull(ctx, name, image.PullOptions{})
	if err != nil {
		return p.pullFailed(name, err)
	}
	defer body.Close()
	if err := follow(body, progress); err != nil {
		return p.pullFailed(name, err)
	}
	return nil
}

func (p *Provider) pullFailed(name string, err error) error {
	err = p.fail("pulling "+name, err)
	if text := fsys.ReasonOf(err); strings.Contains(text, "manifest unknown") || strings.Contains(text, "not found") {
		return fsys.Wrap(fsys.NotExist, text, fsys.NotExist)
	}
	return err
}

// pulled is one message of the engine about a pull.
type pulled struct {
	Status   string `json:"status"`
	ID       string `json:"id"` // of a layer
	Error    string `json:"error"`
	Progress struct {
		Current int64 `json:"current"`
		Total   int64 `json:"total"`
	} `json:"progressDetail"`
}

// follow turns the messages about a pull into lines: one when a layer is there,
// one each second at most of how much has come, and what is said of the whole.
func follow(body io.Reader, progress func(string)) error {
	layers := map[string]pulled{}
	said, last := time.Now(), ""
	say := func(line string) {
		if line != last {
			progress(line)
		}
		said, last = time.Now(), line
	}
	for dec := json.NewDecoder(body); ; {
		var m pulled
		if err := dec.Decode(&m); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		switch {
		case m.Error != "":
			return errors.New(m.Error)
		case m.ID == "" || strings.HasPrefix(m.Status, "Pulling from"):
			say(m.Status)
			continue
		case m.Status == "Downloading" || layers[m.ID].Progress.Total == 0:
			layers[m.ID] = m
		default: // extracting and so on: the bytes have come
			m.Progress = layers[m.ID].Progress
			m.Progress.Current = m.Progress.Total
			layers[m.ID] = m
		}
		if there(m) || time.Since(said) > time.Second {
			say(sumUp(layers))
		}
	}
}

func there(layer pulled) bool {
	return layer.Status == "Pull complete" || layer.Status == "Already exists"
}

func sumUp(layers map[string]pulled) string {
	var done int
	var came, all int64
	for _, layer := range layers {
		if there(layer) {
			done++
		}
		came += layer.Progress.Current
		all += layer.Progress.Total
	}
	return fmt.Sprintf("%d of %d layers, %.1f of %.1f MB", done, len(layers), float64(came)/1e6, float64(all)/1e6)
}
