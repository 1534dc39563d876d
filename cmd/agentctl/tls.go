package main

import (
	"crypto/tls"
	"crypto/x509"
	"os"

	"github.com/urfave/cli/v2"

	"agent9/fsys"
)

// tlsVariables have the flags about TLS that name files.
var tlsVariables = map[string]string{
	"tls-ca":   "AGENT9_TLS_CA",
	"tls-cert": "AGENT9_TLS_CERT",
	"tls-key":  "AGENT9_TLS_KEY",
}

func tlsFile(name, usage string) cli.Flag {
	return &cli.StringFlag{Name: name, EnvVars: []string{tlsVariables[name]}, TakesFile: true, Usage: usage}
}

// tlsConfig returns what the flags say about TLS, or nil if nothing.
func tlsConfig(c *cli.Context) (*tls.Config, error) {
	ca, cert, key := c.String("tls-ca"), c.String("tls-cert"), c.String("tls-key")
	if ca == "" && cert == "" && !c.Bool("tls") {
		return nil, nil
	}
	conf := &tls.Config{}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, at(cert, err)
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, err
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, at(ca, fsys.E(fsys.Invalid, "there is no certificate in PEM form in it"))
		}
	}
	return conf, nil
}
