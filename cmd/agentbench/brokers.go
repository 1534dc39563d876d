package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// A broker is a server of messages of others that has one on disk when it
// says so.
type broker struct {
	name string
	// start starts it with what it keeps in dir.
	start func(ctx context.Context, b *bench, dir string) (p *process, address string, err error)
	// dial returns a sender.
	dial func(address string) (sender, error)
}

func brokers() []broker {
	return []broker{
		{"jetstream", startNATS, dialNATS},
		{"redis", startRedis, dialRedis},
	}
}

func (b *bench) startBroker(ctx context.Context, broker broker) (*process, senders, error) {
	dir := filepath.Join(b.dir, broker.name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, err
	}
	p, address, err := broker.start(ctx, b, dir)
	if err != nil {
		return nil, nil, err
	}
	all, err := newSenders(func() (sender, error) { return broker.dial(address) })
	if err != nil {
		p.end()
	}
	return p, all, err
}

// What is built of NATS is a module of its own: what it requires is nothing to
// agent9.
const (
	natsModule  = "github.com/nats-io/nats-server/v2"
	natsVersion = "v2.11.1"
)

// buildNATS takes nats-server from the PATH, or builds it.
func buildNATS(ctx context.Context, dir string) (string, error) {
	if bin, err := exec.LookPath("nats-server"); err == nil {
		return bin, nil
	}
	mod := fmt.Sprintf("module peer\n\ngo 1.26\n\nrequire %s %s\n", natsModule, natsVersion)
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod), 0o600); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-o", "nats-server", natsModule)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build %s: %v\n%s", natsModule, err, out)
	}
	return filepath.Join(dir, "nats-server"), nil
}

func startNATS(ctx context.Context, b *bench, dir string) (*process, string, error) {
	b.say("building nats-server, which can take minutes the first time")
	bin, err := buildNATS(ctx, dir)
	if err != nil {
		return nil, "", err
	}
	address, err := freeAddress()
	if err != nil {
		return nil, "", err
	}
	conf := filepath.Join(dir, "conf")
	text := fmt.Sprintf("listen: %q\njetstream { store_dir: %q, sync_interval: always }\n", address, filepath.Join(dir, "data"))
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		return nil, "", err
	}
	p, err := launch(ctx, exec.Command(bin, "-c", conf), filepath.Join(dir, "log"), listens("tcp", address))
	if err != nil {
		return nil, "", err
	}
	s, err := dialNATS(address)
	if err == nil {
		err = s.(*nats).request("$JS.API.STREAM.CREATE.BENCH", `{"name":"BENCH","subjects":["bench"],"storage":"file"}`)
		s.close()
	}
	if err != nil {
		p.end()
	}
	return p, address, err
}

// freeAddress is an address that nobody listens on at the moment.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// nats speaks the client protocol of NATS as far as one publisher needs it.
type nats struct {
	net.Conn
	in *bufio.Reader
}

func dialNATS(address string) (sender, error) {
	nc, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(nc, "CONNECT {\"verbose\":false}\r\nSUB _INBOX.%p 1\r\n", nc)
	return &nats{nc, bufio.NewReader(nc)}, err
}

// request publishes text and waits for the reply.
func (n *nats) request(subject, text string) error {
	if _, err := fmt.Fprintf(n, "PUB %s _INBOX.%p %d\r\n%s\r\n", subject, n.Conn, len(text), text); err != nil {
		return err
	}
	for {
		line, err := n.in.ReadString('\n')
		if err != nil {
			return err
		}
		switch verb, rest, _ := strings.Cut(strings.TrimSpace(line), " "); verb {
		case "INFO", "+OK":
		case "PING":
			if _, err := n.Write([]byte("PONG\r\n")); err != nil {
				return err
			}
		case "MSG":
			size, err := strconv.Atoi(rest[strings.LastIndexByte(rest, ' ')+1:])
			if err != nil {
				return err
			}
			reply := make([]byte, size+2)
			if _, err := io.ReadFull(n.in, reply); err != nil {
				return err
			}
			if strings.Contains(string(reply), `"error"`) {
				return fmt.Errorf("jetstream: %s", reply)
			}
			return nil
		default:
			return fmt.Errorf("nats: %q", line)
		}
	}
}

func (n *nats) send() error { return n.request("bench", strings.Repeat("m", messageSize)) }
func (n *nats) close()      { n.Close() }

func startRedis(ctx context.Context, _ *bench, dir string) (*process, string, error) {
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, "", err
	}
	sock := filepath.Join(dir, "s")
	cmd := exec.Command(bin, "--port", "0", "--unixsocket", sock, "--dir", dir, "--save", "", "--appendonly", "yes", "--appendfsync", "always")
	p, err := launch(ctx, cmd, filepath.Join(dir, "log"), listens("unix", sock))
	return p, sock, err
}

// redis adds to a stream.
type redis struct {
	net.Conn
	in  *bufio.Reader
	ask []byte
}

func dialRedis(address string) (sender, error) {
	nc, err := net.Dial("unix", address)
	if err != nil {
		return nil, err
	}
	words := []string{"XADD", "bench", "*", "body", strings.Repeat("m", messageSize)}
	ask := fmt.Appendf(nil, "*%d\r\n", len(words))
	for _, w := range words {
		ask = fmt.Appendf(ask, "$%d\r\n%s\r\n", len(w), w)
	}
	return &redis{nc, bufio.NewReader(nc), ask}, nil
}

func (r *redis) send() error {
	if _, err := r.Write(r.ask); err != nil {
		return err
	}
	for range 2 { // the length of the id, and the id
		line, err := r.in.ReadString('\n')
		if err != nil {
			return err
		}
		if line[0] == '-' {
			return errors.New("redis: " + strings.TrimSpace(line))
		}
	}
	return nil
}

func (r *redis) close() { r.Close() }
