package work

import "strings"

// Providers are those that a service was given, in that order.
type Providers[P interface{ ID() string }] []P

// Get returns the provider called id, or the zero P.
func (list Providers[P]) Get(id string) (p P) {
	for _, p := range list {
		if p.ID() == id {
			return p
		}
	}
	return p
}

// None says that there is no provider called id, and which there are.
func (list Providers[P]) None(id string) string {
	ids := make([]string, len(list))
	for i, p := range list {
		ids[i] = p.ID()
	}
	return "there is no provider " + id + "; there are: " + strings.Join(ids, ", ")
}
