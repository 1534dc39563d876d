//go:build linux

package conformance

import (
	"fmt"
	"os"
)

// officeScripts are for the tree of exportOffice.
var officeScripts = []exportScript{
	{"cat", `cat README`, "hello\nworld\n"},
	{"ls", `ls`, "README\nconfig\nctl\ngoals\nlog\nnew\nsub\n"},
	{"ls -l", `ls -ln | awk 'NR>1 {print $1, $3==` + fmt.Sprint(os.Getuid()) + `, $5, $NF}'`,
		"-r--r--r-- 1 12 README\n-rw-r--r-- 1 8 config\n-rw-rw-rw- 1 0 ctl\ndrwxr-xr-x 1 0 goals\n" +
			"-r--r--r-- 1 14 log\n-rw-rw-rw- 1 0 new\ndr-xr-xr-x 1 0 sub\n"},
	{"find", `find . | sort`, ".\n./README\n./config\n./ctl\n./goals\n./log\n./new\n./sub\n./sub/deep\n./sub/deep/leaf\n./sub/new\n"},
	{"find types", `find sub -type d | sort; find . -name leaf -type f`, "sub\nsub/deep\n./sub/deep/leaf\n"},
	{"grep -r", `grep -r leaf sub/deep; grep -r l . 2>/dev/null | sort`, "sub/deep/leaf:the leaf\n./README:hello\n./README:world\n./sub/deep/leaf:the leaf\n"},
	{"missing", `cat nothing 2>&1; test -e sub/nothing || echo no`, "cat: nothing: No such file or directory\nno\n"},
	{"through a file", `cat README/x 2>&1; true`, "cat: README/x: Not a directory\n"},
	{"head and tail", `head -n1 README; tail -n1 README; tail -c3 README; tail -n1 log; head -c2 log`, "hello\nworld\nld\nthree\non"},
	{"dd", `dd if=README bs=1 skip=6 count=3 status=none`, "wor"},
	{"jq", `jq -c .a config`, "1\n"},
	{"wc and du", `wc -c <README; du -b README | cut -f1`, "12\n12\n"},
	{"cp out", `cp README $TMP/x && cat $TMP/x; cp -r sub/deep $TMP/ && cat $TMP/deep/leaf; cp log $TMP/ && wc -l <$TMP/log`, "hello\nworld\nthe leaf\n3\n"},
	{"write to a message file", `echo '{"a":1}' >new; echo "plain text" >new; echo more >>new; echo '{"b":2}' >>new; cp README new; echo ok`, "ok\n"},
	{"refused request", `echo '{"x":"refuse"}' >new; echo $?`, "bash: line 1: echo: write error: Disk quota exceeded\n1\n"},
	{"refused text, by an external program", `printf 'please refuse' >$TMP/r; cp $TMP/r new || echo failed`, "cp: failed to close 'new': Disk quota exceeded\nfailed\n"},
	{"conversation", `exec 3<>new; echo '{"a":1}' >&3; cat <&3; echo again >&3; cat <&3`, "got {\"a\":1}\ngot again\n"},
	{"conversation by read", `exec 3<>new; echo '{"a":1}' >&3; echo '[2]' >&3; read -r a <&3; read -r b <&3; echo "$a/$b"; read -r c <&3 || echo end`,
		"got {\"a\":1}/got [2]\nend\n"},
	{"head leaves the rest", `exec 3<>new; echo '{"a":1}{"b":2}{"c":3}' >&3; head -n1 <&3; cat <&3`, "got {\"a\":1}\ngot {\"b\":2}\ngot {\"c\":3}\n"},
	{"reading before asking", `exec 3<>new; cat <&3`, "cat: -: Device or resource busy\n"},
	{"what is not listed can be walked to", `cat start; head -c5 on; ls on start`, "started\nfirst" + "on\nstart\n"},
	{"ctl", `echo go >ctl; echo fly >ctl; echo $?; cat ctl; exec 3<>ctl; echo go >&3; cat <&3`, "bash: line 1: echo: write error: Invalid argument\n1\ngo\nstop\nwent\n"},
	{"while read", `while read -r verb; do echo "<$verb>"; done <ctl`, "<go>\n<stop>\n"},
	{"document", `echo '{"a":2}' >config; cat config; ls -l config | awk '{print $5}'; echo '{"bad":1}' >config; cat config`,
		"{\"a\":2}\n8\nbash: line 1: echo: write error: Invalid argument\n{\"a\":2}\n"},
	{"half a document", `printf '{"a":' >$TMP/h; cp $TMP/h config || echo failed; cat config`, "cp: failed to close 'config': Invalid argument\nfailed\n{\"a\":1}\n"},
	{"read-only", `echo x >README; echo x >>log; echo x >sub/y; mkdir sub/z; rm README; mv README R; true`,
		"bash: line 1: README: Permission denied\nbash: line 1: log: Permission denied\nbash: line 1: sub/y: Permission denied\n" +
			"mkdir: cannot create directory 'sub/z': Permission denied\nrm: cannot remove 'README': Permission denied\nmv: cannot move 'README' to 'R': Permission denied\n"},
	{"access", `for f in README config new log sub goals; do test -r $f && printf r; test -w $f && printf w; test -x $f && printf x; echo " $f"; done`,
		"r README\nrw config\nrw new\nr log\nrx sub\nrwx goals\n"},
	{"a directory is not a file", `cat sub; echo x >sub; rm sub; rmdir README; true`,
		"cat: sub: Is a directory\nbash: line 1: sub: Is a directory\nrm: cannot remove 'sub': Is a directory\nrmdir: failed to remove 'README': Not a directory\n"},
	{"one inode, one file", `stat -c %i README README sub/../README | uniq | wc -l; find . -printf '%i\n' | sort | uniq -d; stat -c %i new sub/new | uniq | wc -l`, "1\n2\n"},
	{"links", `ln -s a goals/b; ln README goals/b; mkfifo goals/p; true`,
		"ln: failed to create symbolic link 'goals/b': Operation not permitted\nln: failed to create hard link 'goals/b' => 'README': Operation not permitted\nmkfifo: cannot create fifo 'goals/p': Operation not permitted\n"},
	{"statfs", `stat -f -c '%T %l' .`, "fuseblk 255\n"},
}

// storedScripts are for an empty directory.
var storedScripts = []exportScript{
	{"write, append, truncate", `echo one >f; echo two >>f; cat f; echo x >f; cat f; : >f; stat -c %s f`, "one\ntwo\nx\n0\n"},
	{"make and remove", `mkdir -p a/b/c && echo 1 >a/b/c/x && touch a/y && find a | sort && rm -r a && ls`, "a\na/b\na/b/c\na/b/c/x\na/y\n"},
	{"rename", `echo 1 >a; echo 2 >b; mv a b; cat b; ls; mv b c; cat c`, "1\nb\n1\n"},
	{"rename over a full directory", `mkdir -p d e/f; mv -T d e; rmdir e; true`,
		"mv: cannot move 'd' to 'e': Directory not empty\nrmdir: failed to remove 'e': Directory not empty\n"},
	{"move to another directory", `mkdir d; echo 1 >a; mv a d/; cat d/a; ls; mkdir e; mv d e/; cat e/d/a; ls`, "1\nd\n1\ne\n"},
	{"rename a directory and go on in it", `mkdir -p d/e; echo 1 >d/e/f; cd d/e; mv ../../d ../../g; cat f; echo 2 >>f; cat ../../g/e/f; pwd -P | sed 's,.*/\(.*/.*\),\1,'`, "1\n1\n2\ng/e\n"},
	{"mv -n", `echo 1 >a; echo 2 >b; mv -n a b; cat b`, "2\n"},
	{"dd at offsets", `printf 0123456789 >f; printf XY | dd of=f bs=1 seek=3 conv=notrunc status=none; cat f; echo; dd if=f bs=2 skip=2 count=1 status=none; printf Z | dd of=f bs=1 seek=12 conv=notrunc status=none; stat -c ' %s' f`,
		"012XY56789\nY5 13\n"},
	{"truncate", `echo hello >f; truncate -s 3 f; cat f; truncate -s 5 f; od -An -c f`, "hel   h   e   l  \\0  \\0\n"},
	{"sed -i", `printf 'a\nb\n' >f; sed -i s/a/x/ f; cat f; ls`, "x\nb\nf\n"},
	{"touch", `touch -d '2001-02-03 04:05:06 UTC' f; date -u -r f +%FT%T; touch f; test f -nt /etc/hostname && echo newer`, "2001-02-03T04:05:06\nnewer\n"},
	{"chmod", `touch f; chmod 600 f; stat -c %a f; chown $(id -u):$(id -g) f && echo mine; chown 12345 f`, "600\nmine\nchown: changing ownership of 'f': Permission denied\n"},
	{"umask", `umask 027; touch f; mkdir d; stat -c '%a %n' f d`, "640 f\n750 d\n"},
	{"open exclusively", `set -C; echo 1 >f; echo 2 >f; cat f`, "bash: line 1: f: cannot overwrite existing file\n1\n"},
	{"same file", `echo 1 >a; cp a a; cp a b; cmp a b && echo same`, "cp: 'a' and 'a' are the same file\nsame\n"},
	{"odd names", `touch 'a b' $'new\nline' 'ünï✓' -- -x 'semi;colon' '*'; ls | wc -l; cat 'a b' $'new\nline' 'ünï✓' ./-x; rm -- *; ls`, "7\n"},
	{"long names", `a=$(printf %0255d 1); echo 1 >$a && cat $a; echo 1 2>/dev/null >0$a || echo too long; cat 0$a 2>&1 | sed 's/.*: //'; mkdir 0$a 2>&1 | sed 's/.*: //'`,
		"1\ntoo long\nFile name too long\nFile name too long\n"},
	{"names that are not UTF-8", `touch $'\xff' 2>&1 | sed 's/.*: //'; test -e $'\xff' || echo none`, "Invalid argument\nnone\n"},
	{"big file", `head -c 3000000 /dev/urandom >$TMP/x; cp $TMP/x f; cmp $TMP/x f && stat -c %s f; cp f g; cmp f g && echo same; dd if=f bs=1M 2>/dev/null | cmp - $TMP/x && echo same`, "3000000\nsame\nsame\n"},
	{"du", `head -c 5000 /dev/zero >f; du -k f | cut -f1`, "5\n"},
	{"tar", `mkdir d; echo 1 >d/a; tar cf $TMP/t.tar d; rm -r d; tar xf $TMP/t.tar --no-same-owner; cat d/a`, "1\n"},
}

// openScripts, for an empty directory, are about files that are open and no
// longer have their name.
var openScripts = []exportScript{
	{"removed while open", `echo 1 >f; exec 3<>f; rm f; cat <&3; echo 2 >&3; stat -L -c '%h %s' /dev/fd/3; echo new >f; stat -L -c %s /dev/fd/3; stat -c %s f`, "1\n0 4\n4\n4\n"},
	{"replaced while open", `echo one >f; exec 3<f; echo second >g; mv g f; cat <&3; cat f`, "one\nsecond\n"},
}
