package archive

import (
	"encoding/binary"
	"time"
)

// A zip file of stored entries (PKWARE's APPNOTE, 4.3 and 4.5.3). Its layout is made before any
// entry's bytes are read. Package archive/zip cannot do that: an entry's bytes must pass through
// it.

const (
	zipVersion   = 45 // needed to extract: zip64
	zipUTF8      = 1 << 11
	zip64Extra   = 0x0001
	zip32Most    = 1<<32 - 1
	zipFileMode  = 0o100644 << 16 // external attributes as Unix writes them
	zipMadeBy    = 3<<8 | zipVersion
	zipEpochYear = 1980
)

// zipEntry is one stored file in a zip.
type zipEntry struct {
	name   string
	size   int64
	crc    uint32
	offset int64 // of its local header
}

// zipTime returns a time in the form of MS-DOS, in UTC: in steps of two seconds, since 1980.
func zipTime(t time.Time) (date, clock uint16) {
	t = t.UTC()
	if t.Year() < zipEpochYear {
		t = time.Date(zipEpochYear, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	date = uint16(t.Day() + int(t.Month())<<5 + (t.Year()-zipEpochYear)<<9)
	clock = uint16(t.Second()/2 + t.Minute()<<5 + t.Hour()<<11)
	return date, clock
}

// common appends the fields that both headers of the entry have, up to the lengths of the name and
// of the extra fields.
func (e *zipEntry) common(b []byte, modified time.Time, size uint32, extra int) []byte {
	le := binary.LittleEndian
	date, clock := zipTime(modified)
	b = le.AppendUint16(b, zipVersion)
	b = le.AppendUint16(b, zipUTF8)
	b = le.AppendUint16(b, 0) // stored
	b = le.AppendUint16(b, clock)
	b = le.AppendUint16(b, date)
	b = le.AppendUint32(b, e.crc)
	b = le.AppendUint32(b, size)
	b = le.AppendUint32(b, size)
	b = le.AppendUint16(b, uint16(len(e.name)))
	return le.AppendUint16(b, uint16(extra))
}

// localHeader returns the header before the entry's bytes. Sizes that do not fit are in the zip64
// field.
func (e *zipEntry) localHeader(modified time.Time) []byte {
	le := binary.LittleEndian
	size, extra := uint32(e.size), []byte(nil)
	if e.size >= zip32Most {
		size = zip32Most
		extra = le.AppendUint16(extra, zip64Extra)
		extra = le.AppendUint16(extra, 16)
		extra = le.AppendUint64(extra, uint64(e.size))
		extra = le.AppendUint64(extra, uint64(e.size))
	}
	b := e.common([]byte("PK\x03\x04"), modified, size, len(extra))
	b = append(b, e.name...)
	return append(b, extra...)
}

// directoryHeader returns the entry's header in the central directory.
func (e *zipEntry) directoryHeader(modified time.Time) []byte {
	le := binary.LittleEndian
	size, offset := uint32(e.size), uint32(e.offset)
	var wide []byte
	if e.size >= zip32Most {
		size = zip32Most
		wide = le.AppendUint64(wide, uint64(e.size))
		wide = le.AppendUint64(wide, uint64(e.size))
	}
	if e.offset >= zip32Most {
		offset = zip32Most
		wide = le.AppendUint64(wide, uint64(e.offset))
	}
	var extra []byte
	if wide != nil {
		extra = le.AppendUint16(extra, zip64Extra)
		extra = le.AppendUint16(extra, uint16(len(wide)))
		extra = append(extra, wide...)
	}
	b := []byte("PK\x01\x02")
	b = e.common(le.AppendUint16(b, zipMadeBy), modified, size, len(extra))
	b = append(b, 0, 0, 0, 0, 0, 0) // comment, disk, internal attributes
	b = le.AppendUint32(b, zipFileMode)
	b = le.AppendUint32(b, offset)
	b = append(b, e.name...)
	return append(b, extra...)
}

// zipDirectory returns the end of the file after the last entry: the central directory and its end
// records. at is the directory's offset.
func zipDirectory(entries []zipEntry, at int64, modified time.Time) []byte {
	le := binary.LittleEndian
	var b []byte
	for i := range entries {
		b = append(b, entries[i].directoryHeader(modified)...)
	}
	size, offset := int64(len(b)), uint32(at)
	if at >= zip32Most {
		offset = zip32Most
		end := at + size
		b = append(b, "PK\x06\x06"...)
		b = le.AppendUint64(b, 44) // of this record, without its first 12 bytes
		b = le.AppendUint16(b, zipMadeBy)
		b = le.AppendUint16(b, zipVersion)
		b = append(b, 0, 0, 0, 0, 0, 0, 0, 0) // disks
		b = le.AppendUint64(b, uint64(len(entries)))
		b = le.AppendUint64(b, uint64(len(entries)))
		b = le.AppendUint64(b, uint64(size))
		b = le.AppendUint64(b, uint64(at))
		b = append(b, "PK\x06\x07\x00\x00\x00\x00"...)
		b = le.AppendUint64(b, uint64(end))
		b = le.AppendUint32(b, 1)
	}
	b = append(b, "PK\x05\x06\x00\x00\x00\x00"...)
	b = le.AppendUint16(b, uint16(len(entries)))
	b = le.AppendUint16(b, uint16(len(entries)))
	b = le.AppendUint32(b, uint32(size))
	b = le.AppendUint32(b, offset)
	return append(b, 0, 0) // no comment
}
