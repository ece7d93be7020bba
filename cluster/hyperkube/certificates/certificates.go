// Package certificates makes a cluster's certificate authority and the certificates from it.
package certificates

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"
)

const (
	authorityLife   = 10 * 365 * 24 * time.Hour
	certificateLife = 365 * 24 * time.Hour
	renewBefore     = 30 * 24 * time.Hour
)

// Request is what Main reads as JSON.
type Request struct {
	// Directory gets ca.crt, ca.key, and a .crt and .key for each certificate.
	Directory    string        `json:"directory"`
	Certificates []Certificate `json:"certificates"`
	// Keys are key pairs without a certificate: .key and .pub.
	Keys []string `json:"keys"`
}

// Certificate is one that is wanted: for whom, and for being a server, a client, or both.
type Certificate struct {
	Name          string   `json:"name"`
	CommonName    string   `json:"commonName"`
	Organisations []string `json:"organisations"`
	DNSNames      []string `json:"dnsNames"`
	Addresses     []string `json:"addresses"`
	Server        bool     `json:"server"`
	Client        bool     `json:"client"`
}

// Main makes the certificates that are asked for and not yet there. What is there is kept while it is
// from the same authority, says the same and is valid for another month; the names of those that were made are
// printed, one a line.
func Main(input io.Reader, output, stderr io.Writer) int {
	var request Request
	if err := json.NewDecoder(input).Decode(&request); err != nil {
		fmt.Fprintf(stderr, "read the request: %v\n", err)
		return 2
	}
	made, err := ensure(request, time.Now())
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	for _, name := range made {
		fmt.Fprintln(output, name)
	}
	return 0
}

func ensure(request Request, now time.Time) ([]string, error) {
	if err := os.MkdirAll(request.Directory, 0o700); err != nil {
		return nil, err
	}
	var made []string
	authority, key, isNew, err := loadOrMakeAuthority(request.Directory, now)
	if err != nil {
		return nil, fmt.Errorf("certificate authority: %w", err)
	}
	if isNew {
		made = append(made, "ca")
	}
	for _, wanted := range request.Certificates {
		path := filepath.Join(request.Directory, wanted.Name)
		if existing, _, err := load(path); err == nil && wanted.isMetBy(existing, authority, now) {
			continue
		}
		if err := wanted.make(path, authority, key, now); err != nil {
			return nil, fmt.Errorf("certificate %s: %w", wanted.Name, err)
		}
		made = append(made, wanted.Name)
	}
	for _, name := range request.Keys {
		isNew, err := makeKeyPair(filepath.Join(request.Directory, name))
		if err != nil {
			return nil, fmt.Errorf("key %s: %w", name, err)
		}
		if isNew {
			made = append(made, name)
		}
	}
	return made, nil
}

func loadOrMakeAuthority(directory string, now time.Time) (*x509.Certificate, *ecdsa.PrivateKey, bool, error) {
	path := filepath.Join(directory, "ca")
	if certificate, key, err := load(path); err == nil && now.Add(renewBefore).Before(certificate.NotAfter) {
		return certificate, key, false, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, false, err
	}
	serial, err := serialNumber()
	if err != nil {
		return nil, nil, false, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		// The serial in the name keeps an older authority of the same cluster from being mistaken for this one.
		Subject:               pkix.Name{CommonName: "tieline-cluster " + serial.Text(36)},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.Add(authorityLife),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, false, err
	}
	if err := store(path, der, key); err != nil {
		return nil, nil, false, err
	}
	certificate, err := x509.ParseCertificate(der)
	return certificate, key, true, err
}

func (wanted Certificate) isMetBy(existing, authority *x509.Certificate, now time.Time) bool {
	addresses := make([]string, 0, len(existing.IPAddresses))
	for _, address := range existing.IPAddresses {
		addresses = append(addresses, address.String())
	}
	return existing.CheckSignatureFrom(authority) == nil &&
		now.Add(renewBefore).Before(existing.NotAfter) &&
		existing.Subject.CommonName == wanted.CommonName &&
		slices.Equal(existing.Subject.Organization, wanted.Organisations) &&
		slices.Equal(existing.DNSNames, wanted.DNSNames) &&
		slices.Equal(addresses, wanted.Addresses) &&
		slices.Equal(existing.ExtKeyUsage, wanted.usages())
}

func (wanted Certificate) usages() []x509.ExtKeyUsage {
	var usages []x509.ExtKeyUsage
	if wanted.Server {
		usages = append(usages, x509.ExtKeyUsageServerAuth)
	}
	if wanted.Client {
		usages = append(usages, x509.ExtKeyUsageClientAuth)
	}
	return usages
}

func (wanted Certificate) make(
	path string, authority *x509.Certificate, authorityKey *ecdsa.PrivateKey, now time.Time,
) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	serial, err := serialNumber()
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: wanted.CommonName, Organization: wanted.Organisations},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(certificateLife),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  wanted.usages(),
		DNSNames:     wanted.DNSNames,
	}
	for _, address := range wanted.Addresses {
		parsed := net.ParseIP(address)
		if parsed == nil {
			return fmt.Errorf("%q is no IP address", address)
		}
		template.IPAddresses = append(template.IPAddresses, parsed)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, authority, key.Public(), authorityKey)
	if err != nil {
		return err
	}
	return store(path, der, key)
}

func makeKeyPair(path string) (bool, error) {
	if _, err := os.Stat(path + ".pub"); err == nil {
		return false, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return false, err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return false, err
	}
	if err := storeKey(path, key); err != nil {
		return false, err
	}
	return true, storePEM(path+".pub", "PUBLIC KEY", public)
}

func serialNumber() (*big.Int, error) {
	return rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
}

func load(path string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	certificatePEM, err := os.ReadFile(path + ".crt")
	if err != nil {
		return nil, nil, err
	}
	keyPEM, err := os.ReadFile(path + ".key")
	if err != nil {
		return nil, nil, err
	}
	certificateBlock, _ := pem.Decode(certificatePEM)
	keyBlock, _ := pem.Decode(keyPEM)
	if certificateBlock == nil || keyBlock == nil {
		return nil, nil, errors.New("not in PEM form")
	}
	certificate, err := x509.ParseCertificate(certificateBlock.Bytes)
	if err != nil {
		return nil, nil, err
	}
	key, err := x509.ParseECPrivateKey(keyBlock.Bytes)
	if err != nil {
		return nil, nil, err
	}
	// A run that was killed between the two files leaves a pair that does not fit.
	if !key.PublicKey.Equal(certificate.PublicKey) {
		return nil, nil, errors.New("the key is not the certificate's")
	}
	return certificate, key, nil
}

func store(path string, certificate []byte, key *ecdsa.PrivateKey) error {
	if err := storeKey(path, key); err != nil {
		return err
	}
	return storePEM(path+".crt", "CERTIFICATE", certificate)
}

func storeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return storePEM(path+".key", "EC PRIVATE KEY", der)
}

func storePEM(path, kind string, der []byte) error {
	temporary := path + ".new"
	if err := os.WriteFile(temporary, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}
