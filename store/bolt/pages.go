package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
)

// What bbolt writes, all little endian: pages with a header of 16 bytes (number,
// flags, count, how many pages more it takes), and behind it elements of 16
// bytes, and behind those, without gaps, their keys and values. bbolt trusts it, and
// a page that leads back to one above it ends the process.
const (
	pageHeader  = 16
	elementSize = 16
	branchPage  = 0x01
	leafPage    = 0x02
	metaPage    = 0x04
	freePage    = 0x10
	bucketFlag  = 0x01
	magic       = 0xed0cdaed
	noFreeList  = ^uint64(0)
	metaSize    = 56 // that its checksum is of
)

// pageSize finds out how large the pages of a file are; 0: it is not bbolt's.
func pageSize(r io.ReaderAt) int64 {
	for size := int64(1 << 10); size <= 64<<10; size *= 2 {
		for _, at := range []int64{0, size} {
			head := make([]byte, pageHeader+metaSize)
			if _, err := r.ReadAt(head, at); err == nil && u32(head[pageHeader:]) == magic && u32(head[pageHeader+8:]) == uint32(size) {
				return size
			}
		}
	}
	return 0
}

// pages reads a file page by page and finds what is wrong with it.
type pages struct {
	ctx  context.Context
	r    io.ReaderAt
	size int64 // of a page
	// found is told of a record that is damaged, by its key, or with no key of
	// what else is wrong.
	found func(key, what string)
	// values: seals are verified; else only where keys lie. leaves: those pages are read.
	values, leaves bool

	end  uint64 // the number of the first page that does not exist
	seen []bool
	bufs [][]byte // by depth
	last []byte   // key
}

func (p *pages) wrong(format string, args ...any) { p.found("", fmt.Sprintf(format, args...)) }

// check goes through all of the file. Its error is of reading it.
func (p *pages) check() error {
	var newest []byte
	for no := range uint64(2) {
		page := make([]byte, p.size)
		if ok, err := p.readAt(page, no); !ok {
			return err
		}
		meta := page[pageHeader:]
		sum := fnv.New64a()
		sum.Write(meta[:metaSize])
		if u64(page) != no || page[8] != metaPage || sum.Sum64() != u64(meta[metaSize:]) {
			p.wrong("the meta page %d is not what was written", no)
			continue
		}
		if newest == nil || u64(meta[48:]) > u64(newest[48:]) {
			newest = meta
		}
	}
	if newest == nil {
		return nil
	}
	p.end = u64(newest[40:])
	p.seen = make([]bool, p.end)
	if err := p.tree(u64(newest[16:]), 0, nil, nil, p.buckets); err != nil {
		return err
	}
	if free := u64(newest[32:]); free != noFreeList {
		return p.free(free)
	}
	return nil
}

func u64(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }
func u32(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }
func u16(b []byte) uint16 { return binary.LittleEndian.Uint16(b) }

// read returns page no, which nothing else leads to; nil says that it is wrong.
func (p *pages) read(no uint64, depth int) ([]byte, error) {
	if p.ctx.Err() != nil {
		return nil, context.Cause(p.ctx)
	}
	if len(p.bufs) <= depth {
		p.bufs = append(p.bufs, make([]byte, p.size))
	}
	if no < 2 || no >= p.end {
		p.wrong("a page points to page %d, which does not exist", no)
		return nil, nil
	}
	b := p.bufs[depth][:p.size]
	if ok, err := p.readAt(b, no); !ok {
		return nil, err
	}
	more := uint64(u32(b[12:]))
	if u64(b) != no || more >= p.end-no {
		p.wrong("page %d is not what was written", no)
		return nil, nil
	}
	for n := no; n <= no+more; n++ {
		if p.seen[n] {
			p.wrong("two pages point to page %d", n)
			return nil, nil
		}
		p.seen[n] = true
	}
	if more > 0 {
		if need := int64(more+1) * p.size; int64(cap(b)) < need {
			b = make([]byte, need)
			p.bufs[depth] = b
		} else {
			b = b[:need]
		}
		if ok, err := p.readAt(b, no); !ok {
			return nil, err
		}
	}
	return b, nil
}

// readAt fills b with page no and those behind it.
func (p *pages) readAt(b []byte, no uint64) (ok bool, err error) {
	_, err = p.r.ReadAt(b, int64(no)*p.size)
	if errors.Is(err, io.EOF) {
		p.wrong("it ends in page %d, and should have %d pages", no, p.end)
		return false, nil
	}
	return err == nil, err
}

// An element is one of a page.
type element struct {
	key, value []byte
	flags      uint32
	page       uint64 // of a branch
}

// elements returns those of a page; ok says that they lie as they are written.
func (p *pages) elements(b []byte) (all []element, ok bool) {
	count := int(u16(b[10:]))
	at := pageHeader + count*elementSize
	if at > len(b) {
		return nil, false
	}
	all = make([]element, count)
	for i := range all {
		head := pageHeader + i*elementSize
		e := b[head:]
		pos, ksize, vsize := u32(e), uint64(u32(e[4:])), uint64(0)
		if b[8] == leafPage {
			all[i].flags, pos, ksize, vsize = u32(e), u32(e[4:]), uint64(u32(e[8:])), uint64(u32(e[12:]))
		} else {
			all[i].page = u64(e[8:])
		}
		if head+int(pos) != at || uint64(len(b)-at) < ksize+vsize {
			return nil, false
		}
		all[i].key, all[i].value = b[at:at+int(ksize)], b[at+int(ksize):at+int(ksize+vsize)]
		at += int(ksize + vsize)
	}
	return all, len(b) == int(p.size) || at > len(b)-int(p.size)
}

// tree goes through the pages below page no, whose keys are not below low, nor, if
// that is not nil, above high. leaf is called with what is in each leaf.
func (p *pages) tree(no uint64, depth int, low, high []byte, leaf func(no uint64, all []element, low, high []byte) error) error {
	b, err := p.read(no, depth)
	if b == nil || err != nil {
		return err
	}
	kind := u16(b[8:])
	all, ok := p.elements(b)
	if !ok || kind != branchPage && kind != leafPage || kind == branchPage && len(all) == 0 {
		p.wrong("page %d is not what was written", no)
		return nil
	}
	if kind == leafPage {
		return leaf(no, all, low, high)
	}
	if !p.leaves && p.isLeaf(all[0].page) {
		return nil
	}
	for i, e := range all {
		from, to := e.key, high
		if i == 0 {
			from = low
		}
		if i+1 < len(all) {
			to = all[i+1].key
			if bytes.Compare(e.key, to) >= 0 {
				p.wrong("the keys of page %d are not in order", no)
				return nil
			}
		}
		if err := p.tree(e.page, depth+1, from, to, leaf); err != nil {
			return err
		}
	}
	return nil
}

func (p *pages) isLeaf(no uint64) bool {
	var head [pageHeader]byte
	p.r.ReadAt(head[:], int64(no)*p.size)
	return head[8] == leafPage
}

// buckets goes through what the root has.
func (p *pages) buckets(no uint64, all []element, _, _ []byte) error {
	for _, e := range all {
		if e.flags != bucketFlag || len(e.value) < 16 {
			p.wrong("page %d is not what was written", no)
			return nil
		}
		p.last = nil
		leaf := p.plain
		if bytes.Equal(e.key, sealedBucket) {
			leaf = p.records
		}
		root := u64(e.value)
		if root != 0 {
			if err := p.tree(root, 1, nil, nil, leaf); err != nil {
				return err
			}
			continue
		}
		inside := e.value[16:]
		if len(inside) < pageHeader || u16(inside[8:]) != leafPage {
			p.wrong("page %d is not what was written", no)
			return nil
		}
		small := &pages{size: int64(len(inside))}
		elements, ok := small.elements(inside)
		if !ok {
			p.wrong("page %d is not what was written", no)
			return nil
		}
		if err := leaf(no, elements, nil, nil); err != nil {
			return err
		}
	}
	return nil
}

// records looks at sealed records.
func (p *pages) records(no uint64, all []element, low, high []byte) error {
	for _, e := range all {
		switch {
		case e.flags != 0:
			p.wrong("page %d is not what was written", no)
			return nil
		case !wholeKey(e.key, e.value):
			p.found(string(e.key), "its key is not the one that it was stored at")
			continue
		}
		if _, ok := unseal(e.key, e.value); p.values && !ok {
			p.found(string(e.key), "its bytes are not those that were stored")
		}
		p.order(no, e.key, low, high)
	}
	return nil
}

// plain looks at what has no seals.
func (p *pages) plain(no uint64, all []element, low, high []byte) error {
	for _, e := range all {
		if e.flags != 0 || len(e.key) == 0 {
			p.wrong("page %d is not what was written", no)
			return nil
		}
		p.order(no, e.key, low, high)
	}
	return nil
}

func (p *pages) order(no uint64, key, low, high []byte) {
	if p.last != nil && bytes.Compare(key, p.last) <= 0 || bytes.Compare(key, low) < 0 || high != nil && bytes.Compare(key, high) >= 0 {
		p.wrong("the keys of page %d are not in order", no)
	}
	p.last = append(p.last[:0], key...)
}

// free looks at the list of free pages: one that is in use would be written over.
func (p *pages) free(no uint64) error {
	b, err := p.read(no, 0)
	if b == nil || err != nil {
		return err
	}
	count, ids := int(u16(b[10:])), b[pageHeader:]
	if count == 0xffff {
		count, ids = int(u64(ids)), ids[8:]
	}
	if u16(b[8:]) != freePage || count < 0 || count > len(ids)/8 {
		p.wrong("page %d, the list of free pages, is not what was written", no)
		return nil
	}
	for i := range count {
		if id := u64(ids[8*i:]); id < 2 || id >= p.end || p.seen[id] && p.leaves {
			p.wrong("the list of free pages has page %d, which is not free", id)
		}
	}
	return nil
}
