// Loads a compose file as Docker's own client does, with the variables of some files, and prints it as JSON.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
)

func main() {
	if err := load(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func load(file string, variables []string) error {
	options, err := cli.NewProjectOptions([]string{file},
		cli.WithEnvFiles(variables...), cli.WithDotEnv, cli.WithProfiles([]string{"*"}))
	if err != nil {
		return err
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		return err
	}
	printed, err := project.MarshalJSON()
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(printed)
	return err
}
