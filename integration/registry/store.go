package registry

import (
	"crypto/md5"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// reference says which version of which subject a schema uses, and the name by which the schema uses it.
type reference struct {
	Name    string `json:"name"`
	Subject string `json:"subject"`
	Version int    `json:"version"`
}

// schema is a registered schema with its id and its GUID.
type schema struct {
	kind       string
	text       string
	references []reference
	key        string // equal for equal schemas
	id         int
	guid       string
}

type version struct {
	number  int
	schema  *schema
	deleted bool
}

// store holds the schemas and subjects of a registry. Its callers must hold the registry's lock.
type store struct {
	schemas  []*schema // the schema with the id n is at index n-1
	subjects map[string][]*version
	levels   map[string]string // compatibility levels of subjects
}

func newStore() *store {
	return &store{subjects: map[string][]*version{}, levels: map[string]string{}}
}

// register adds a schema to a subject, unless the subject has it.
func (s *store) register(subject string, candidate schema) *version {
	if v := s.find(subject, candidate.key, false); v != nil {
		return v
	}
	number := 1
	if all := s.subjects[subject]; len(all) > 0 {
		number = all[len(all)-1].number + 1
	}
	v := &version{number: number, schema: s.intern(candidate)}
	s.subjects[subject] = append(s.subjects[subject], v)
	return v
}

// intern returns the registered schema that equals the candidate. If there is none, it gives the candidate an id and a
// GUID and adds it.
func (s *store) intern(candidate schema) *schema {
	for _, known := range s.schemas {
		if known.key == candidate.key {
			return known
		}
	}
	candidate.id = len(s.schemas) + 1
	candidate.guid = guidOf(candidate.key)
	s.schemas = append(s.schemas, &candidate)
	return &candidate
}

// find returns the newest version of a subject whose schema has the key; nil if there is none. It finds a deleted
// version only if deleted is set.
func (s *store) find(subject, key string, deleted bool) *version {
	for _, v := range slices.Backward(s.subjects[subject]) {
		if v.schema.key == key && (deleted || !v.deleted) {
			return v
		}
	}
	return nil
}

// versions returns the versions of a subject, with the deleted ones or without.
func (s *store) versions(subject string, deleted bool) []*version {
	var found []*version
	for _, v := range s.subjects[subject] {
		if deleted || !v.deleted {
			found = append(found, v)
		}
	}
	return found
}

// version returns one version of a subject. The text is a number, "latest" or "-1".
func (s *store) version(subject, text string, deleted bool) (*version, error) {
	number, err := versionNumber(text)
	if err != nil {
		return nil, err
	}
	found := s.versions(subject, deleted)
	if len(found) == 0 {
		return nil, noSubject(subject)
	}
	if number == latest {
		return found[len(found)-1], nil
	}
	for _, v := range found {
		if v.number == number {
			return v, nil
		}
	}
	return nil, noVersion(text)
}

// latest is the version number by which a request asks for the newest version.
const latest = -1

func versionNumber(text string) (int, error) {
	if text == "latest" {
		return latest, nil
	}
	number, err := strconv.Atoi(text)
	if err != nil || (number < 1 && number != latest) {
		return 0, failure(422, 42202, "The specified version '%s' is not a valid version id. "+
			"Allowed values are between [1, 2^31-1] and the string \"latest\"", text)
	}
	return number, nil
}

// names returns the subjects that have a version, in alphabetical order. Deleted versions count only if deleted is set.
func (s *store) names(deleted bool) []string {
	names := []string{}
	for _, name := range slices.Sorted(maps.Keys(s.subjects)) {
		if len(s.versions(name, deleted)) > 0 {
			names = append(names, name)
		}
	}
	return names
}

// use is a version of a subject that has a certain schema.
type use struct {
	Subject string `json:"subject"`
	Version int    `json:"version"`
}

// uses returns the subjects and versions in which a schema is registered.
func (s *store) uses(of *schema, deleted bool) []use {
	found := []use{}
	for _, name := range s.names(deleted) {
		for _, v := range s.versions(name, deleted) {
			if v.schema == of {
				found = append(found, use{Subject: name, Version: v.number})
			}
		}
	}
	return found
}

// byID returns the schema with an id, which comes from the path of a request as text.
func (s *store) byID(text string) (*schema, error) {
	id, err := strconv.Atoi(text)
	if err != nil {
		return nil, failure(404, 404, "HTTP 404 Not Found")
	}
	if id < 1 || id > len(s.schemas) {
		return nil, noSchema()
	}
	return s.schemas[id-1], nil
}

func (s *store) byGUID(guid string) (*schema, error) {
	for _, known := range s.schemas {
		if strings.EqualFold(known.guid, guid) {
			return known, nil
		}
	}
	return nil, noSchema()
}

// deleteVersion deletes a version softly or, if permanent is set, for good. A version can be deleted for good only
// after it was deleted softly.
func (s *store) deleteVersion(subject, text string, permanent bool) (int, error) {
	v, err := s.version(subject, text, permanent)
	switch {
	case err != nil:
		return 0, err
	case permanent && !v.deleted:
		return 0, failure(404, 40407, "Subject '%s' Version %d was not deleted first before being permanently deleted",
			subject, v.number)
	case permanent:
		s.remove(subject, v)
	default:
		v.deleted = true
	}
	return v.number, nil
}

// deleteSubject deletes all versions of a subject, softly or for good as deleteVersion does, and the subject's
// compatibility level.
func (s *store) deleteSubject(subject string, permanent bool) ([]int, error) {
	found := s.versions(subject, permanent)
	if len(found) == 0 {
		if len(s.subjects[subject]) > 0 {
			return nil, failure(404, 40404, "Subject '%s' was soft deleted. Set permanent=true to delete permanently", subject)
		}
		return nil, noSubject(subject)
	}
	if permanent && len(s.versions(subject, false)) > 0 {
		return nil, failure(404, 40405, "Subject '%s' was not deleted first before being permanently deleted", subject)
	}
	var numbers []int
	for _, v := range found {
		numbers = append(numbers, v.number)
		v.deleted = true
		if permanent {
			s.remove(subject, v)
		}
	}
	delete(s.levels, subject)
	return numbers, nil
}

func (s *store) remove(subject string, v *version) {
	rest := slices.DeleteFunc(slices.Clone(s.subjects[subject]), func(other *version) bool { return other == v })
	s.subjects[subject] = rest
	if len(rest) == 0 {
		delete(s.subjects, subject)
	}
}

// guidOf derives a GUID from the key of a schema, so that the schema has the same GUID in every registry.
func guidOf(key string) string {
	sum := md5.Sum([]byte(key)) // the hash is an identity and protects no secret
	sum[6] = sum[6]&0x0f | 0x30
	sum[8] = sum[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}
