package bolt

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"

	"agent9/store"

	"go.etcd.io/bbolt"
)

// Behind each value lie two CRC-32C, little endian: of its key, and of its key
// and the value. So a byte that has changed is found, and a value that lies at
// another key; and whether a key is whole, without reading its value.
const sealSize = store.Room

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal returns value with its seal behind it, in its capacity if that has room.
func seal(key, value []byte) []byte {
	n := len(value)
	k := crc32.Checksum(key, castagnoli)
	v := crc32.Update(k, castagnoli, value)
	value = binary.LittleEndian.AppendUint32(value, k)
	return binary.LittleEndian.AppendUint32(value, v)[:n+sealSize]
}

// unseal returns the value of a record; ok says that it and key are whole.
func unseal(key, record []byte) (value []byte, ok bool) {
	if !wholeKey(key, record) {
		return nil, false
	}
	n := len(record) - sealSize
	k := binary.LittleEndian.Uint32(record[n:])
	return record[:n:n], crc32.Update(k, castagnoli, record[:n]) == binary.LittleEndian.Uint32(record[n+4:])
}

// wholeKey reports whether key is the one that record was stored at.
func wholeKey(key, record []byte) bool {
	n := len(record) - sealSize
	return n >= 0 && crc32.Checksum(key, castagnoli) == binary.LittleEndian.Uint32(record[n:])
}

// seek moves c, of sealed records, to the first one that is not before key.
// What is nil is proven only if the two that key would lie between are whole and
// in order: with a key changed, in a leaf or above, every search that it leads
// astray ends beside it, or at two between which the sought key does not lie.
// Unless found is key, c is then elsewhere.
func seek(c *bbolt.Cursor, key []byte) (found, record []byte, proven bool) {
	found, record = c.Seek(key)
	if bytes.Equal(found, key) {
		return found, record, true
	}
	var before, other []byte
	if found == nil {
		before, other = c.Last()
	} else {
		before, other = c.Prev()
	}
	proven = (found == nil || bytes.Compare(found, key) > 0 && wholeKey(found, record)) &&
		(before == nil || bytes.Compare(before, key) < 0 && wholeKey(before, other))
	return found, record, proven
}
