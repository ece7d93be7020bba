// Package nft stands before the real nft for one kube-proxy: it gives the table a name of the cluster's own, so that
// two clusters (or a cluster and the host's own kube-proxy) never write into each other's.
package nft

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
)

// The names of kube-proxy's table: upstream's is a constant, and a host has one namespace of tables.
const (
	upstreamTable = "kube-proxy"
	othersTable   = "kube-proxy-of-another"
)

// Main runs the nft at the path in TIELINE_NFT, with the table in TIELINE_NFT_TABLE in the place of kube-proxy's, and
// returns its exit code.
func Main() int {
	table, program := os.Getenv("TIELINE_NFT_TABLE"), os.Getenv("TIELINE_NFT")
	if table == "" || program == "" {
		fmt.Fprintln(os.Stderr, "TIELINE_NFT_TABLE and TIELINE_NFT say which table and which nft: both are needed")
		return 2
	}
	arguments := slices.Clone(os.Args[1:])
	for i, argument := range arguments {
		if argument == upstreamTable {
			arguments[i] = table
		}
	}
	command := exec.Command(program, arguments...)
	if slices.Contains(arguments, "-") {
		script, err := io.ReadAll(os.Stdin)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		command.Stdin = bytes.NewReader(renameInScript(script, table))
	}
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, os.Stderr
	err := command.Run()
	os.Stdout.Write(renameInJSON(output.Bytes(), table))
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// A statement names its table third: "add rule ip kube-proxy services ...".
var statement = regexp.MustCompile(`(?m)^(\w+ \w+ (?:ip6?|inet) )` + upstreamTable + `( |$)`)

func renameInScript(script []byte, table string) []byte {
	return statement.ReplaceAll(script, []byte("${1}"+table+"${2}"))
}

// In nft's JSON a table's name is a "table" member of an object, and the "name" of a table itself.
func renameInJSON(listing []byte, table string) []byte {
	renames := []struct{ from, to string }{{upstreamTable, othersTable}, {table, upstreamTable}}
	for _, rename := range renames {
		for _, member := range []string{"table", "name"} {
			listing = bytes.ReplaceAll(listing,
				fmt.Appendf(nil, "%q: %q", member, rename.from), fmt.Appendf(nil, "%q: %q", member, rename.to))
		}
	}
	return listing
}
