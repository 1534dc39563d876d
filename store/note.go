package store

// A Note records an event, with a detail that has a JSON form, in the
// transaction of tx. A nil Note records nothing.
type Note func(tx Store, event string, detail any) error

// Record calls n, if there is one.
func (n Note) Record(tx Store, event string, detail any) error {
	if n == nil {
		return nil
	}
	return n(tx, event, detail)
}
