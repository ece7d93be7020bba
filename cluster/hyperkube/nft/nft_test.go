package nft

import "testing"

const scriptBefore = `add table ip kube-proxy { comment "rules for kube-proxy" ; }
add chain ip kube-proxy services
add rule ip kube-proxy services ip daddr 10.96.0.10 comment "kube-proxy here"
flush table ip6 kube-proxy
`

const scriptAfter = `add table ip tieline-0-services { comment "rules for kube-proxy" ; }
add chain ip tieline-0-services services
add rule ip tieline-0-services services ip daddr 10.96.0.10 comment "kube-proxy here"
flush table ip6 tieline-0-services
`

func TestAScriptNamesTheClustersTableAndKeepsComments(t *testing.T) {
	if got := string(renameInScript([]byte(scriptBefore), "tieline-0-services")); got != scriptAfter {
		t.Errorf("got\n%s", got)
	}
}

func TestAListingShowsTheClustersTableAsKubeProxysAndHidesAnothers(t *testing.T) {
	listing := `{"chain": {"family": "ip", "table": "kube-proxy", "name": "a"}},` +
		`{"chain": {"family": "ip", "table": "tieline-0-services", "name": "b"}}`
	want := `{"chain": {"family": "ip", "table": "kube-proxy-of-another", "name": "a"}},` +
		`{"chain": {"family": "ip", "table": "kube-proxy", "name": "b"}}`
	if got := string(renameInJSON([]byte(listing), "tieline-0-services")); got != want {
		t.Errorf("got %s", got)
	}
}
