// The part of wget that the event engine's probes use, for an image without a shell: wget -q -T SECONDS -O FILE URL.
// With -O - it prints the answer.
// It fails when the answer is not 200, as BusyBox' wget in the published image does.
package main

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

func main() {
	flag.Bool("q", false, "print nothing but errors")
	output := flag.String("O", "/dev/null", "the file for the answer: /dev/null, or - for standard output")
	seconds := flag.Int("T", 5, "seconds after which it gives up")
	flag.Parse()
	if flag.NArg() != 1 || (*output != "/dev/null" && *output != "-") {
		fmt.Fprintln(os.Stderr, "usage: wget -q -T SECONDS -O /dev/null|- URL")
		os.Exit(2)
	}
	client := http.Client{Timeout: time.Duration(*seconds) * time.Second}
	answer, err := client.Get(flag.Arg(0))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		fmt.Fprintln(os.Stderr, answer.Status)
		os.Exit(1)
	}
	if *output == "-" {
		if _, err := io.Copy(os.Stdout, answer.Body); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
