//go:build linux && !386 && !arm && !mips && !mipsle

package fuse

const MaxIdle = maxIdle

// Known returns how many files the kernel knows.
func (m *Mounted) Known() int {
	m.tree.inodes.mu.Lock()
	defer m.tree.inodes.mu.Unlock()
	return len(m.tree.inodes.byID)
}
