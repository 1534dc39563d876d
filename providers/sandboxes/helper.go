package sandboxes

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"agent9/fsys"
)

// A Helper is cmd/a9 on this machine, for drivers to put into sandboxes.
type Helper struct {
	Path string
	Hash string // of what is in it: SHA-256, in hexadecimal
}

// HelperEnv is the variable that says where the helper is.
const HelperEnv = "AGENT9_HELPER"

// FindHelper returns the helper for sandboxes of this GOOS and GOARCH: the file
// that HelperEnv names, else a9-GOOS-GOARCH or a9 beside the running program.
// For Linux it must run with no other file: a static executable.
func FindHelper(goos, arch string) (Helper, error) {
	path, err := locateHelper(goos, arch)
	if err != nil {
		return Helper{}, err
	}
	return CheckHelper(path, goos, arch)
}

func locateHelper(goos, arch string) (string, error) {
	if path := os.Getenv(HelperEnv); path != "" {
		return path, nil
	}
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		return "", fsys.Wrap(fsys.Unavailable, "finding this program's path", err)
	}
	dir := filepath.Dir(self)
	for _, name := range []string{"a9-" + goos + "-" + arch, "a9"} {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, nil
		}
	}
	return "", fsys.E(fsys.Unavailable, "every sandbox needs the program a9, which is not in "+dir+": "+howToBuild(goos, arch)+
		", put it there, or name it in "+HelperEnv)
}

func howToBuild(goos, arch string) string {
	s := "build it with CGO_ENABLED=0 "
	if runtime.GOOS != goos || runtime.GOARCH != arch {
		s += "GOOS=" + goos + " GOARCH=" + arch + " "
	}
	return s + "go build ./cmd/a9"
}

// machines are the GOARCHs whose executables can be told apart.
var machines = map[string]elf.Machine{
	"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64, "386": elf.EM_386, "arm": elf.EM_ARM,
	"riscv64": elf.EM_RISCV, "ppc64le": elf.EM_PPC64, "s390x": elf.EM_S390, "loong64": elf.EM_LOONGARCH,
}

// CheckHelper says of the file at path whether it can be the helper for goos
// and arch.
func CheckHelper(path, goos, arch string) (Helper, error) {
	f, err := os.Open(path)
	if err != nil {
		return Helper{}, fsys.Wrap(fsys.Unavailable, "the helper for sandboxes", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Helper{}, fsys.Wrap(fsys.Unavailable, "the helper for sandboxes", err)
	}
	why := ""
	if goos == "linux" {
		why = notStatic(f, arch)
	}
	if info.Mode()&0o111 == 0 {
		why = "cannot be executed"
	}
	if why != "" {
		return Helper{}, fsys.E(fsys.Unavailable, path+" "+why+": "+howToBuild(goos, arch))
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(f, 0, info.Size())); err != nil {
		return Helper{}, fsys.Wrap(fsys.Unavailable, path, err)
	}
	return Helper{Path: path, Hash: hex.EncodeToString(sum.Sum(nil))}, nil
}

// notStatic says why f is no static executable for Linux on arch, if so.
func notStatic(f io.ReaderAt, arch string) string {
	exe, err := elf.NewFile(f)
	if err != nil {
		return "is not a program for Linux"
	}
	if want, ok := machines[arch]; ok && exe.Machine != want {
		return "is for another processor than " + arch
	}
	for _, p := range exe.Progs {
		if p.Type == elf.PT_INTERP {
			return "needs libraries, which a sandbox may not have"
		}
	}
	return ""
}
