package models

import (
	"errors"
	"time"
)

// RetryAfter is how long the provider that failed with err wants to be left
// alone, as it said itself; 0 if it did not say. It is at most an hour.
func RetryAfter(err error) time.Duration {
	var says interface{ RetryAfter() time.Duration }
	if errors.As(err, &says) {
		return says.RetryAfter()
	}
	return 0
}

// Final reports whether the provider that failed with err says that the same
// request is of no use there: a key that was refused, a command that gave up.
func Final(err error) bool {
	var says interface{ Final() bool }
	return errors.As(err, &says) && says.Final()
}
