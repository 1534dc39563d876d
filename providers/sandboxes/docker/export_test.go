package docker

// HandPrefix begins the names of this owner's hands.
func (p *Provider) HandPrefix() string { return p.handPrefix() }
