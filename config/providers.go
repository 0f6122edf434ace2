package config

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// providersKey lists the names that references in values may use; what each of them is stands in
// config.providers.NAME.class. Kafka's own three classes are known by their last name.
const providersKey = "config.providers"

// reference is ${provider:path:key} or ${provider:key}.
var reference = regexp.MustCompile(`\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}`)

// resolveReferences replaces references to files, directories and the environment in the values of all keys, so that
// passwords need not stand in the broker's own file. A reference to a provider that is not configured stays as it is, as
// in Kafka; one that leads nowhere is a problem.
func (l *loader) resolveReferences() {
	providers := map[string]func(path, key string) (string, error){}
	for _, name := range splitList(strings.TrimSpace(l.layers.static[providersKey])) {
		class := l.layers.static[providersKey+"."+name+".class"]
		switch class[strings.LastIndexByte(class, '.')+1:] {
		case "FileConfigProvider":
			providers[name] = fromFile
		case "DirectoryConfigProvider":
			providers[name] = fromDirectory
		case "EnvVarConfigProvider":
			providers[name] = l.fromEnvironment
		default:
			l.problems = append(l.problems, Problem{
				Key: providersKey + "." + name + ".class", Value: class, Where: l.where[providersKey],
				Reason:  "no such provider",
				Allowed: "FileConfigProvider, DirectoryConfigProvider, EnvVarConfigProvider of org.apache.kafka.common.config.provider",
			})
		}
	}
	if len(providers) == 0 {
		return
	}
	for _, name := range sortedKeys(l.layers.static) {
		if !strings.HasPrefix(name, providersKey) {
			l.resolve(name, providers)
		}
	}
}

func (l *loader) resolve(name string, providers map[string]func(path, key string) (string, error)) {
	l.layers.static[name] = reference.ReplaceAllStringFunc(l.layers.static[name], func(ref string) string {
		m := reference.FindStringSubmatch(ref)
		get, ok := providers[m[1]]
		if !ok {
			return ref
		}
		val, err := get(m[3], m[4])
		if err != nil {
			l.problems = append(l.problems, Problem{Key: name, Value: ref, Where: l.where[name], Reason: err.Error()})
		}
		return val
	})
}

func fromFile(path, key string) (string, error) {
	text, err := readSmallFile(path)
	if err != nil {
		return "", err
	}
	props, err := parseProperties(text)
	if err != nil {
		return "", fmt.Errorf("file %s: %w", path, err)
	}
	val, ok := props[key]
	if !ok {
		return "", fmt.Errorf("file %s has no key %s", path, key)
	}
	return val, nil
}

func fromDirectory(path, key string) (string, error) {
	if key != filepath.Base(key) || key == ".." {
		return "", fmt.Errorf("%q is not the name of a file in %s", key, path)
	}
	text, err := readSmallFile(filepath.Join(path, key))
	return string(text), err
}

func (l *loader) fromEnvironment(_, key string) (string, error) {
	val, ok := l.variables[key]
	if !ok {
		return "", fmt.Errorf("environment variable %s is not set", key)
	}
	return val, nil
}

// readSmallFile reads a file that a configuration names, within maxFileBytes. It may be a pipe.
func readSmallFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // read only
	text, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFileBytes {
		return nil, fmt.Errorf("%s has more than %d bytes", path, maxFileBytes)
	}
	return text, nil
}
