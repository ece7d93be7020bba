// The programs that the tests of manifests use are named in go.mod, as tools.
package main

func main() {}
