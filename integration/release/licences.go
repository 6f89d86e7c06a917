package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Licences by their SPDX identifiers. What is shipped may only ask to be named;
// what only tests use never leaves this repository, so it may also ask that
// changes of itself are published.
var (
	allowedShipped = []string{"MIT", "BSD-2-Clause", "BSD-3-Clause", "Apache-2.0", "ISC", "0BSD"}
	allowedInTests = append(slices.Clone(allowedShipped), "MPL-2.0")
)

// licences fails when anything has a licence that is not allowed, or none that is
// known.
func licences(ctx context.Context, out io.Writer) error {
	parts, err := shipped(ctx)
	if err != nil {
		return err
	}
	problems, err := judge(out, "in the programs", parts, allowedShipped)
	if err != nil {
		return err
	}
	tools, err := testParts(ctx, parts)
	if err != nil {
		return err
	}
	more, err := judge(out, "in tests alone", tools, allowedInTests)
	if err != nil {
		return err
	}
	return errors.Join(append(problems, more...)...)
}

// testParts lists what only tests use.
func testParts(ctx context.Context, shipped []part) ([]part, error) {
	all, err := modules(ctx, "-test", "./...")
	if err != nil {
		return nil, err
	}
	for _, path := range []string{shippedLock, testLock} {
		npm, err := locked(path)
		if err != nil {
			return nil, err
		}
		all = append(all, npm...)
	}
	return slices.DeleteFunc(all, func(p part) bool {
		return slices.ContainsFunc(shipped, func(s part) bool { return s.url() == p.url() })
	}), nil
}

func judge(out io.Writer, where string, parts []part, allowed []string) (problems []error, err error) {
	counts := map[string]int{}
	for _, p := range parts {
		found, err := licencesOf(p)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			problems = append(problems, fmt.Errorf("%s: no known licence", p.url()))
		}
		for _, l := range found {
			counts[l]++
			if !slices.Contains(allowed, l) {
				problems = append(problems, fmt.Errorf("%s: licence %s is not allowed %s", p.url(), l, where))
			}
		}
	}
	var words []string
	for l, n := range counts {
		words = append(words, fmt.Sprintf("%s %d", l, n))
	}
	slices.Sort(words)
	fmt.Fprintf(out, "%d parts %s: %s\n", len(parts), where, strings.Join(words, ", "))
	return problems, nil
}

// licencesOf names all licences of a part: which of them hold for which of its
// files nobody needs to find out while all of them are allowed.
func licencesOf(p part) ([]string, error) {
	if p.ecosystem == "npm" {
		return strings.FieldsFunc(p.licence, func(r rune) bool { return r == ' ' || r == '(' || r == ')' }), nil
	}
	entries, err := os.ReadDir(p.folder)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.url(), err)
	}
	var found []string
	for _, e := range entries {
		if !licenceFile.MatchString(e.Name()) || e.IsDir() {
			continue
		}
		text, err := os.ReadFile(filepath.Join(p.folder, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.url(), err)
		}
		found = append(found, recognise(string(text))...)
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|unlicense)([.-]\w+)*$`)

// phrases are words that stand in one licence and in no other that looks like it.
var phrases = []struct{ licence, words string }{
	{"MIT", "permission is hereby granted, free of charge, to any person obtaining a copy"},
	{"Apache-2.0", "apache license version 2.0"},
	{"Apache-2.0", "licensed under the apache license, version 2.0"},
	{"ISC", "permission to use, copy, modify, and/or distribute this software for any purpose with or without fee"},
	{"ISC", "permission to use, copy, modify, and distribute this software for any purpose with or without fee"},
	{"MPL-2.0", "mozilla public license version 2.0"},
	{"MPL-2.0", "mozilla public license, version 2.0"},
	{"EPL-2.0", "eclipse public license - v 2.0"},
	{"AGPL", "gnu affero general public license"},
	{"LGPL", "gnu lesser general public license"},
	{"GPL", "gnu general public license"},
	{"SSPL-1.0", "server side public license"},
	{"BUSL", "business source license"},
	{"CC0-1.0", "cc0 1.0 universal"},
	{"Unlicense", "this is free and unencumbered software released into the public domain"},
}

const bsd = "redistribution and use in source and binary forms, with or without modification, are permitted"

var bsdThird = regexp.MustCompile(`neither the names? of .{1,200} may be used to endorse`)

// recognise names the licences that a text is or holds.
func recognise(text string) []string {
	words := strings.ToLower(strings.Join(strings.Fields(text), " "))
	var found []string
	for _, p := range phrases {
		if strings.Contains(words, p.words) && !slices.Contains(found, p.licence) {
			found = append(found, p.licence)
		}
	}
	if slices.Contains(found, "MPL-2.0") { // which names the GNU licences as those it may be combined with
		found = slices.DeleteFunc(found, func(l string) bool { return strings.HasSuffix(l, "GPL") })
	}
	if strings.Contains(words, bsd) {
		if bsdThird.MatchString(words) {
			found = append(found, "BSD-3-Clause")
		} else {
			found = append(found, "BSD-2-Clause")
		}
	}
	return found
}
