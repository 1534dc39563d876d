package bolt

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// holder names the process that has locked the file at path, as in
// " (process 17)"; it is empty if that is not known. See proc_locks(5).
func holder(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	locks, err := os.ReadFile("/proc/locks")
	if err != nil {
		return ""
	}
	st := info.Sys().(*syscall.Stat_t)
	major := (st.Dev>>8)&0xfff | (st.Dev>>32)&^0xfff
	minor := st.Dev&0xff | (st.Dev>>12)&^0xff&0xffffffff
	file := fmt.Sprintf("%02x:%02x:%d", major, minor, st.Ino)
	for line := range strings.Lines(string(locks)) {
		// 1: FLOCK ADVISORY WRITE 17 fe:00:4711 0 EOF
		f := strings.Fields(line)
		if len(f) >= 6 && f[1] == "FLOCK" && f[5] == file && f[4] != "0" && f[4] != "-1" {
			return " (process " + f[4] + ")"
		}
	}
	return ""
}
