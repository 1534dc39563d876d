package host

import "agent9/services/transports"

// Local is what carries messages among the agents of h.
func (h *Host) Local() transports.Transport { return h.post.Local }
