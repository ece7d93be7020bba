package main

import (
	"context"

	"k8s.io/component-base/cli"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// kubeletMain differs from the other components only in that upstream's constructor takes a context.
func kubeletMain() int {
	return cli.Run(kubelet.NewKubeletCommand(context.Background()))
}
