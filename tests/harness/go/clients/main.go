// The generator of Go clients is named in go.mod, as a tool, with what its clients import.
package main

import _ "github.com/oapi-codegen/runtime"

func main() {}
