// Command manifests decodes the files of the reference deployments with the types of the programs
// that read them, and prints them as JSON. A key that these types do not have is an error. It is a
// module of its own for its many dependencies.
//
//	manifests compose FILE      # a Compose project; ${VARIABLES} come from the environment
//	manifests kubernetes FILE…  # Kubernetes objects, several in a file
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"

	"github.com/compose-spec/compose-go/v2/cli"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	documents "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) < 3 {
		log.Fatal("usage: manifests compose|kubernetes FILE…")
	}
	var decoded any
	var err error
	if os.Args[1] == "compose" {
		decoded, err = compose(os.Args[2])
	} else {
		decoded, err = kubernetes(os.Args[2:])
	}
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(decoded)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// compose reads a project as docker compose does.
func compose(file string) (any, error) {
	options, err := cli.NewProjectOptions([]string{file}, cli.WithOsEnv, cli.WithWorkingDirectory(filepath.Dir(file)))
	if err != nil {
		return nil, err
	}
	return options.LoadProject(context.Background())
}

// kubernetes reads the objects of all files.
func kubernetes(files []string) (list []any, err error) {
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		for in := documents.NewYAMLReader(bufio.NewReader(f)); ; {
			text, err := in.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			object, err := decode(text)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			list = append(list, object)
		}
	}
	return list, nil
}

// decode decodes an object into the type that it names.
func decode(text []byte) (object any, err error) {
	var named struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := yaml.Unmarshal(text, &named); err != nil {
		return nil, err
	}
	switch kind := named.APIVersion + " " + named.Kind; kind {
	case "v1 Namespace":
		object = new(core.Namespace)
	case "v1 ConfigMap":
		object = new(core.ConfigMap)
	case "v1 Secret":
		object = new(core.Secret)
	case "v1 Service":
		object = new(core.Service)
	case "apps/v1 Deployment":
		object = new(apps.Deployment)
	case "apps/v1 StatefulSet":
		object = new(apps.StatefulSet)
	case "policy/v1 PodDisruptionBudget":
		object = new(policy.PodDisruptionBudget)
	default:
		return nil, fmt.Errorf("an object of %q, which this program does not know", kind)
	}
	return object, yaml.UnmarshalStrict(text, object)
}
