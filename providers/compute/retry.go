package compute

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
