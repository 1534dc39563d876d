package fsys

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
)

// fieldsOf returns the fields that the first object in doc may have of those
// that have another one, where doc is read into a t; nil if all is as it may be,
// or as somebody else decodes it.
func fieldsOf(t reflect.Type, doc json.RawMessage) []string {
	switch {
	case t.Kind() == reflect.Pointer:
		return fieldsOf(t.Elem(), doc)
	case reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()):
		return nil
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		var list []json.RawMessage
		json.Unmarshal(doc, &list)
		return firstOf(list, func(one json.RawMessage) []string { return fieldsOf(t.Elem(), one) })
	case reflect.Map, reflect.Struct:
		var object map[string]json.RawMessage
		json.Unmarshal(doc, &object)
		return inObject(t, object)
	}
	return nil
}

func inObject(t reflect.Type, object map[string]json.RawMessage) []string {
	names := make([]string, 0, len(object))
	for name := range object {
		names = append(names, name)
	}
	slices.Sort(names)
	if t.Kind() == reflect.Map {
		return firstOf(names, func(name string) []string { return fieldsOf(t.Elem(), object[name]) })
	}
	var fields []string
	types := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			name = f.Name
		}
		if name != "-" && f.IsExported() && !f.Anonymous {
			fields = append(fields, name)
			types[strings.ToLower(name)] = f.Type
		}
	}
	return firstOf(names, func(name string) []string {
		if of := types[strings.ToLower(name)]; of != nil {
			return fieldsOf(of, object[name])
		}
		return fields
	})
}

func firstOf[T any](list []T, fields func(T) []string) []string {
	for _, one := range list {
		if f := fields(one); f != nil {
			return f
		}
	}
	return nil
}
