package certificates

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

var now = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func request(directory string) Request {
	return Request{
		Directory: directory,
		Certificates: []Certificate{
			{Name: "server", CommonName: "a", DNSNames: []string{"a.example"}, Addresses: []string{"10.0.0.1"}, Server: true},
			{Name: "admin", CommonName: "b", Organisations: []string{"system:masters"}, Client: true},
		},
		Keys: []string{"tokens"},
	}
}

func made(t *testing.T, request Request, at time.Time) []string {
	t.Helper()
	names, err := ensure(request, at)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestEverythingIsMadeOnceAndKept(t *testing.T) {
	wanted := request(t.TempDir())
	if got := made(t, wanted, now); !slices.Equal(got, []string{"ca", "server", "admin", "tokens"}) {
		t.Errorf("the first run made %v", got)
	}
	if got := made(t, wanted, now.Add(time.Hour)); len(got) != 0 {
		t.Errorf("the second run made %v again", got)
	}
}

func TestACertificateIsMadeAnewWhenAnAddressChanges(t *testing.T) {
	wanted := request(t.TempDir())
	made(t, wanted, now)
	wanted.Certificates[0].Addresses = []string{"10.0.0.2"}
	if got := made(t, wanted, now); !slices.Equal(got, []string{"server"}) {
		t.Errorf("made %v", got)
	}
}

func TestCertificatesAreRenewedAMonthBeforeTheyExpire(t *testing.T) {
	wanted := request(t.TempDir())
	made(t, wanted, now)
	if got := made(t, wanted, now.Add(certificateLife-renewBefore)); !slices.Equal(got, []string{"server", "admin"}) {
		t.Errorf("made %v", got)
	}
}

func TestAKeyThatDoesNotFitItsCertificateIsReplacedWithIt(t *testing.T) {
	wanted := request(t.TempDir())
	made(t, wanted, now)
	key := func(name string) string { return filepath.Join(wanted.Directory, name+".key") }
	another, err := os.ReadFile(key("admin"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(key("server"), another, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := made(t, wanted, now); !slices.Equal(got, []string{"server"}) {
		t.Errorf("made %v", got)
	}
}

func TestANewAuthorityMakesEveryCertificateAnew(t *testing.T) {
	wanted := request(t.TempDir())
	made(t, wanted, now)
	if err := os.Remove(filepath.Join(wanted.Directory, "ca.key")); err != nil {
		t.Fatal(err)
	}
	if got := made(t, wanted, now); !slices.Equal(got, []string{"ca", "server", "admin"}) {
		t.Errorf("made %v", got)
	}
}
