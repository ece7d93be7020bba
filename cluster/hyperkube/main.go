// Command hyperkube is every component of a small Kubernetes in one binary: the first argument, or the name that
// the binary was called by, says which. Each Kubernetes component, etcd and CoreDNS are upstream's own commands,
// unchanged; "certificates" and "nft" are small programs of our own that a cluster needs around them.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"

	"tieline.dev/cluster/hyperkube/certificates"
	"tieline.dev/cluster/hyperkube/nft"

	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/template"

	// Metrics and version flags of the upstream commands.
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
)

// components maps a name to what runs under it; each gets os.Args with its own name first.
var components = map[string]func() int{
	"etcd":                    func() int { etcdmain.Main(os.Args); return 0 },
	"kube-apiserver":          cobraMain(apiserver.NewAPIServerCommand),
	"kube-controller-manager": cobraMain(controllermanager.NewControllerManagerCommand),
	"kube-scheduler":          cobraMain(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
	"kube-proxy":              cobraMain(proxy.NewProxyCommand),
	"kubelet":                 kubeletMain,
	"kubectl":                 kubectlMain,
	"coredns":                 corednsMain,
	"certificates":            func() int { return certificates.Main(os.Stdin, os.Stdout, os.Stderr) },
	"nft":                     nft.Main,
}

func main() {
	name := filepath.Base(os.Args[0])
	if _, ok := components[name]; !ok && len(os.Args) > 1 {
		name = os.Args[1]
		os.Args = os.Args[1:]
	}
	run, ok := components[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "Unknown component %q: name one of %s\n", name, strings.Join(names(), ", "))
		os.Exit(2)
	}
	os.Exit(run())
}

func names() []string {
	all := make([]string, 0, len(components))
	for name := range components {
		all = append(all, name)
	}
	sort.Strings(all)
	return all
}

func cobraMain(build func() *cobra.Command) func() int {
	return func() int { return cli.Run(build()) }
}

func kubectlMain() int {
	command := kubectl.NewDefaultKubectlCommand()
	if err := cli.RunNoErrOutput(command); err != nil {
		util.CheckErr(err)
		return 1
	}
	return 0
}

// corednsMain serves DNS with the plugins imported above, and only those: their order is that of upstream's
// plugin.cfg, which decides the order in which a query passes them.
func corednsMain() int {
	wanted := []string{"bind", "health", "ready", "errors", "cache", "template", "kubernetes", "forward"}
	dnsserver.Directives = slices.DeleteFunc(dnsserver.Directives, func(name string) bool {
		return !slices.Contains(wanted, name)
	})
	caddy.Quiet = true
	coremain.Run()
	return 0
}
