// A stand-in for Terraform's AWS provider, where the released one is not to be had.
//
// Its schema is that of released versions (schema/, read by schema.py), so `terraform validate`, `test` and `plan` judge our
// modules by the types, the flags and the nesting that users have. Its behaviour is ours: what the protocol asks for is
// derived from the flags of the schema, and the types that terraform/ makes are created, read, changed and deleted by calls
// to AWS, as few as show their state. Validation of values, retries, waits and import are the released provider's alone.
//
// The file name says which version is served, as Terraform names the programs in its mirrors:
// `terraform-provider-aws_v5.40.0`.
package main

import (
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
	"github.com/hashicorp/terraform-plugin-go/tfprotov5/tf5server"
)

const address = "registry.terraform.io/hashicorp/aws"

//go:embed schema/*.json
var schemas embed.FS

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	_, version, _ := strings.Cut(filepath.Base(os.Args[0]), "_v")
	text, err := schemas.ReadFile("schema/" + version + ".json")
	if err != nil {
		return fmt.Errorf("find the schema for `%s`; name the program after a file of schema/: %w", os.Args[0], err)
	}
	schema, err := readSchema(text)
	if err != nil {
		return fmt.Errorf("read the schema of version %s: %w", version, err)
	}
	return tf5server.Serve(address, func() tfprotov5.ProviderServer { return &provider{schema: schema} })
}
