//go:build unix

package engine

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// certificates makes an authority, writes its certificates for an engine to
// dir and those for its clients to clients, and returns dockerd's options.
func certificates(dir, clients string) ([]string, error) {
	if err := os.Mkdir(clients, 0o700); err != nil {
		return nil, err
	}
	ca, err := newPair("authority", nil)
	if err != nil {
		return nil, err
	}
	for where, name := range map[string]string{dir: "engine", clients: "client"} {
		pair, err := newPair(name, ca)
		if err != nil {
			return nil, err
		}
		for file, block := range map[string]*pem.Block{"ca.pem": ca.cert(), "cert.pem": pair.cert(), "key.pem": pair.secret()} {
			if err := os.WriteFile(filepath.Join(where, file), pem.EncodeToMemory(block), 0o600); err != nil {
				return nil, err
			}
		}
	}
	return []string{"-H", "tcp://127.0.0.1:0", "--tlsverify",
		"--tlscacert", filepath.Join(dir, "ca.pem"),
		"--tlscert", filepath.Join(dir, "cert.pem"),
		"--tlskey", filepath.Join(dir, "key.pem")}, nil
}

// pair is a key with its certificate.
type pair struct {
	key  *ecdsa.PrivateKey
	x509 *x509.Certificate
}

// newPair makes a pair that by certifies, or an authority if by is nil.
func newPair(name string, by *pair) (*pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	p := &pair{key: key, x509: &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}}
	if by == nil {
		p.x509.IsCA, p.x509.BasicConstraintsValid, p.x509.KeyUsage = true, true, x509.KeyUsageCertSign
		by = p
	}
	der, err := x509.CreateCertificate(rand.Reader, p.x509, by.x509, key.Public(), by.key)
	if err != nil {
		return nil, err
	}
	p.x509, err = x509.ParseCertificate(der)
	return p, err
}

func (p *pair) cert() *pem.Block { return &pem.Block{Type: "CERTIFICATE", Bytes: p.x509.Raw} }

func (p *pair) secret() *pem.Block {
	der, err := x509.MarshalECPrivateKey(p.key)
	if err != nil {
		panic(err) // it was made with a known curve
	}
	return &pem.Block{Type: "EC PRIVATE KEY", Bytes: der}
}
