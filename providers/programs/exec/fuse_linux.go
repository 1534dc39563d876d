package exec

import "syscall"

const fuseMagic = 0x65735546 // FUSE_SUPER_MAGIC of statfs(2)

func isFUSE(dir string) bool {
	var st syscall.Statfs_t
	return syscall.Statfs(dir, &st) == nil && int64(st.Type) == fuseMagic
}
