package main

import (
	"cmp"
	"context"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"agent9/fsys"
	"agent9/providers/models"
	"agent9/providers/models/anthropic"
	"agent9/providers/models/cloudflare"
	"agent9/providers/models/echo"
	"agent9/providers/models/exec"
	"agent9/providers/models/ollama"
	"agent9/providers/models/openai"
)

// A choice is what --compute says of one provider.
type choice struct {
	id, target string
	free       bool   // price=0
	data       string // the daemon's directory
	getenv     func(string) string
	lacks      *string // where key says which variables are empty
}

// drivers make the provider that a choice is for.
var drivers = map[string]func(choice) (models.Provider, error){
	"exec": func(c choice) (models.Provider, error) {
		return exec.New(exec.Config{Command: c.target, Data: c.data})
	},
	"openai": func(c choice) (models.Provider, error) {
		key, name := c.key("OPENAI_API_KEY", c.target)
		return openai.New(openai.Config{BaseURL: c.target, Key: key, KeyName: name, Free: c.free})
	},
	"anthropic": func(c choice) (models.Provider, error) {
		key, name := c.key("ANTHROPIC_API_KEY", c.target)
		return anthropic.New(anthropic.Config{BaseURL: c.target, Key: key, KeyName: name})
	},
	"ollama": func(c choice) (models.Provider, error) {
		key, name := c.key("OLLAMA_API_KEY", cmp.Or(c.target, "http://"+ollamaAddr))
		return ollama.New(ollama.Config{BaseURL: c.target, Key: key, KeyName: name})
	},
	"cloudflare": func(c choice) (models.Provider, error) {
		key, name := c.key("CLOUDFLARE_API_TOKEN", "")
		return cloudflare.New(cloudflare.Config{Account: c.target, Key: key, KeyName: name})
	},
	"echo": func(choice) (models.Provider, error) { return echo.New(echo.Config{}), nil },
}

// sweepCommands ends what is left of the commands of an earlier daemon on the
// directory data.
func sweepCommands(data string) { exec.Sweep(data) }

// key returns the key of a provider and the variable that it is in:
// <ID>_API_KEY, else the vendor's, which is not sent without TLS. url is where
// to; empty is the vendor's own.
func (c choice) key(vendors, url string) (key, name string) {
	own := strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToUpper(c.id)) + "_API_KEY"
	if key := c.getenv(own); key != "" || url != "" && !strings.HasPrefix(url, "https:") {
		return key, own
	}
	if key = c.getenv(vendors); key == "" && c.lacks != nil {
		*c.lacks = strings.Join(slices.Compact([]string{own, vendors}), " or ")
	}
	return key, vendors
}

// costless is the option of a server whose work costs nothing.
const costless = "price=0"

// provider makes a provider of ID=DRIVER:TARGET, or ID=openai,price=0:TARGET.
// Lacks is which variables have no key for it; empty if it has one, or needs
// none.
func provider(spec, data string, getenv func(string) string) (r *models.Runner, lacks string, err error) {
	id, rest, ok := strings.Cut(spec, "=")
	driver, target, ok2 := strings.Cut(rest, ":")
	if !ok || !ok2 || fsys.CheckName(id) != nil {
		return nil, "", fsys.E(fsys.Invalid, "--compute "+spec+": want ID=DRIVER:TARGET, as in local=exec:./model.sh")
	}
	driver, option, options := strings.Cut(driver, ",")
	if options && (driver != "openai" || option != costless) {
		return nil, "", fsys.E(fsys.Invalid, "--compute "+spec+": the only option is "+id+"=openai,price=0:URL, for a server that costs nothing; what others cost is set by prices in an agent's compute/policy")
	}
	make := drivers[driver]
	if make == nil {
		return nil, "", fsys.E(fsys.Invalid, "--compute "+spec+": no driver is called "+driver+"; there are "+
			strings.Join(slices.Sorted(maps.Keys(drivers)), ", "))
	}
	p, err := make(choice{id: id, target: target, free: options, data: data, getenv: getenv, lacks: &lacks})
	if err != nil {
		return nil, "", fsys.Wrap(fsys.Invalid, "--compute "+spec, err)
	}
	return models.NewRunner(id, p), lacks, nil
}

// ollamaAddr is where Ollama listens if nobody told it otherwise.
const ollamaAddr = "127.0.0.1:11434"

// found returns the providers that are there without being asked for.
func found(ctx context.Context, getenv func(string) string) (specs []string) {
	if getenv("OPENAI_API_KEY") != "" {
		base := getenv("OPENAI_BASE_URL")
		if base == "" {
			base = "https://api.openai.com/v1"
		}
		specs = append(specs, "openai=openai:"+base)
	}
	if getenv("ANTHROPIC_API_KEY") != "" {
		specs = append(specs, "anthropic=anthropic:"+getenv("ANTHROPIC_BASE_URL"))
	}
	if h := getenv("OLLAMA_HOST"); h != "" {
		specs = append(specs, "ollama=ollama:"+ollamaURL(h))
	} else if answers(ctx, ollamaAddr) {
		specs = append(specs, "ollama=ollama:"+ollamaURL(ollamaAddr))
	}
	if len(specs) == 0 {
		specs = append(specs, "echo=echo:")
	}
	return specs
}

// ollamaURL reads what OLLAMA_HOST may be: a URL, or a host with or without a
// port, where every interface means this machine.
func ollamaURL(host string) string {
	if strings.Contains(host, "://") {
		return strings.TrimSuffix(host, "/")
	}
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name, port = strings.Trim(host, "[]"), "11434"
	}
	if name == "" || name == "0.0.0.0" || name == "::" {
		name = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(name, port)
}

func answers(ctx context.Context, address string) bool {
	d := net.Dialer{Timeout: 300 * time.Millisecond}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}
