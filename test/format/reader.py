#!/usr/bin/env python3
"""A reader of segments, written from archive/FORMAT.md and from nothing else.

    reader.py list FILE              one line a cell: kind, offset, name, URL, time, size and SHA-256 of the
                                     file, length and SHA-256 of the record as it stands in the WARC view
    reader.py body FILE URL          the body of a page
    reader.py single|warc FILE OUT   that view of the whole file
    reader.py index FILE             the index that WI names, read without the cells

FILE is a segment, a batch or a members view. Whatever the page promises of a cell is checked while it is
read; what is wrong ends the program with the offset."""

import base64
import calendar
import hashlib
import json
import mmap
import re
import struct
import sys
import time
import zlib

from names import file_name, host_directory, host_of

START = bytes.fromhex("1f8b08040000000000ff")
PLAIN = bytes.fromhex("1f8b08000000000000ff")
TAIL = bytes.fromhex("010400fbff0d0a0d0a")
CONTENT_TYPE = "application/http;msgtype=response"
HEADERS = ["WARC-Type", "WARC-Record-ID", "WARC-Date", "WARC-Target-URI", "WARC-IP-Address", "WARC-Payload-Digest",
           "WARC-Block-Digest", "WARC-Truncated", "WARC-Profile", "WARC-Refers-To-Target-URI", "WARC-Refers-To-Date",
           "Content-Type", "Content-Length"]
INFO_FIELDS = (b"software: sheaf\r\nformat: WARC File Format 1.1\r\n"
               b"conformsTo: https://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/\r\n")
INFO = (b"WARC/1.1\r\nWARC-Type: warcinfo\r\nWARC-Record-ID: <urn:uuid:5ea6a5c4-1999-8000-8000-000000000001>\r\n"
        b"WARC-Date: 1999-01-01T00:00:00Z\r\nContent-Type: application/warc-fields\r\n"
        b"Content-Length: %d\r\n\r\n%s\r\n\r\n" % (len(INFO_FIELDS), INFO_FIELDS))


class Wrong(Exception):
    """The file is not as FORMAT.md says."""


def need(ok, offset, what):
    if not ok:
        raise Wrong(f"offset {offset}: {what}")


def trailer(data):
    return struct.pack("<II", zlib.crc32(data), len(data) & 0xFFFFFFFF)


def warcinfo():
    block = struct.pack("<BHH", 1, len(INFO), len(INFO) ^ 0xFFFF) + INFO
    return PLAIN + block + trailer(INFO)


class Bits:
    """Packs bits as DEFLATE does; Huffman codes go out from their highest bit."""

    def __init__(self):
        self.value, self.count = 0, 0

    def put(self, value, width):
        self.value |= value << self.count
        self.count += width

    def code(self, value, width):
        self.put(int(f"{value:0{width}b}"[::-1], 2), width)

    def bytes(self):
        return self.value.to_bytes((self.count + 7) // 8, "little")


def length_code(length):
    """The fixed code, its width, and extra bits of a match's length (RFC 1951, 3.2.5)."""
    if length == 258:
        return 285, 0, 0
    symbol, base, extra = 257, 3, 0
    while length >= base + (1 << extra):
        base += 1 << extra
        symbol += 1
        extra = max(0, (symbol - 261) // 4)
    return symbol, length - base, extra


def zero_block(count, final):
    """One fixed-Huffman block that yields zeros, as PAD is."""
    bits = Bits()
    bits.put(0b011 if final else 0b010, 3)
    if count > 0:
        bits.code(0b00110000, 8)
        count -= 1
    while count >= 3:
        match = min(count, 258)
        symbol, rest, extra = length_code(match)
        bits.code(symbol - 256, 7) if symbol < 280 else bits.code(symbol - 280 + 0b11000000, 8)
        bits.put(rest, extra)
        bits.code(0, 5)
        count -= match
    for _ in range(count):
        bits.code(0b00110000, 8)
    bits.code(0, 7)
    if final:
        return bits.bytes()
    bits.put(0, 3)
    return bits.bytes() + bytes.fromhex("0000ffff")


def inflate(blocks, offset):
    """Decodes a run. With a final empty block put after it, it must end exactly there."""
    decoder = zlib.decompressobj(-15)
    try:
        data = decoder.decompress(blocks)
        whole = not decoder.eof
        data += decoder.decompress(b"\x03\x00")
    except zlib.error as error:
        raise Wrong(f"offset {offset}: {error}") from None
    need(whole and decoder.eof and not decoder.unused_data, offset, "not a run: a final block, or an end within a byte")
    need(data or not blocks, offset, "blocks that yield nothing")
    return data


class Member:
    """A gzip member's head: extra fields in order, and where the blocks begin."""

    def __init__(self, file, start):
        need(file[start:start + 10] == START, start, "no member begins here")
        xlen, = struct.unpack_from("<H", file, start + 10)
        need(12 <= xlen <= 16000, start + 10, f"XLEN is {xlen}")
        need(file[start + 12:start + 16] == b"WL\x08\x00", start + 12, "WL is not the first field")
        self.start, self.blocks = start, start + 12 + xlen
        self.length, = struct.unpack_from("<Q", file, start + 16)
        self.end = start + self.length
        need(self.length >= xlen + 22 and self.end <= len(file), start + 16, f"WL is {self.length}")
        self.fields, at = {}, start + 24
        while at < self.blocks:
            name, size = struct.unpack_from("<2sH", file, at)
            self.fields[name] = file[at + 4:at + 4 + size]
            at += 4 + size
        need(at == self.blocks, start + 12, "the fields do not fill XLEN")

    def decode(self, file, final, padded=b""):
        """The member's data: a run, then a given final block that yields given padding."""
        at = self.end - 8 - len(final)
        need(file[at:self.end - 8] == final, at, "not the final block that must be here")
        data = inflate(file[self.blocks:at], self.blocks)
        need(file[self.end - 8:self.end] == trailer(data + padded), self.end - 8, "CRC32 or ISIZE is wrong")
        return data


def tar_header(name, kind, size, seconds):
    block = bytearray(512)
    for at, value in (0, name.encode()), (100, b"0000644"), (108, b"0000000"), (116, b"0000000"), (124, b"%011o" % size), \
            (136, b"%011o" % seconds), (148, b" " * 8), (156, kind), (257, b"ustar\x0000"):
        block[at:at + len(value)] = value
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def tar_headers(name, size, seconds, mime="", truncated="", url=""):
    pax = b""
    for key, value in ("path", name if len(name) > 100 else ""), ("SCHILY.xattr.user.mime_type", mime), \
            ("SCHILY.xattr.user.warc.truncated", truncated), ("SCHILY.xattr.user.xdg.origin.url", url):
        record = f" {key}={value}\n".encode()
        digits = len(str(len(record)))
        digits = len(str(len(record) + digits))
        if value:
            pax += b"%d%s" % (len(record) + digits, record)
    if not pax:
        return tar_header(name[:100], b"0", size, seconds)
    return tar_header("././@PaxHeader", b"x", len(pax), 0) + pax + bytes(-len(pax) % 512) + tar_header(name[:100], b"0", size, seconds)


def read_time(text):
    """Decimal nanoseconds since 1970 of a date in RFC 3339's form."""
    second, _, fraction = text.removesuffix("Z").partition(".")
    need(text.endswith("Z") and not fraction.endswith("0") and len(fraction) <= 9, 0, f"time {text}")
    return calendar.timegm(time.strptime(second, "%Y-%m-%dT%H:%M:%S")) * 10**9 + int(fraction.ljust(9, "0"))


def digest(data):
    return "sha256:" + base64.b32encode(hashlib.sha256(data).digest()).decode()


def media_type(http):
    for line in http.decode("latin1").split("\r\n")[1:]:
        name, colon, value = line.partition(":")
        if colon and name.lower() == "content-type":
            value = value.split(";")[0].strip(" \t").lower()
            token = r"[!#$%&'*+\-.^_`{|}~0-9a-z]+"
            return value if re.fullmatch(f"{token}/{token}", value) and len(value) <= 100 and value != "warc/revisit" else ""
    return ""


class Cell:
    """T and B at an offset; a page's, a WARC-only one, or a tar-only one."""

    def __init__(self, file, offset):
        self.file, self.offset = file, offset
        self.t = Member(file, offset)
        need(not self.t.fields, offset, "T has further fields")
        self.headers = self.t.decode(file, b"\x03\x00")
        self.b = Member(file, self.t.end)
        self.end = self.b.end
        if self.b.fields:
            self.read_record()
        else:
            self.kind, self.url = "tar-only", ""
            self.read_tar_only()

    def read_body(self, size):
        padding = bytes(-size % 512)
        self.pad = zero_block(len(padding), True)
        self.body = self.b.decode(self.file, self.pad, padding)
        need(len(self.body) == size, self.b.start, f"the body has {len(self.body)} bytes, not {size}")

    def read_tar_only(self):
        block = self.headers[-512:]
        if self.headers[156:157] == b"x":
            length, path = self.headers[512:-512].rstrip(b"\0").split(b" ", 1)
            need(int(length) == len(length) + 1 + len(path), self.offset, "PAX record's length")
            self.name = path.removeprefix(b"path=").removesuffix(b"\n").decode()
        else:
            self.name = block[:100].rstrip(b"\0").decode()
        self.seconds = int(block[136:147], 8)
        self.read_body(int(block[124:135], 8))
        need(self.headers == tar_headers(self.name, len(self.body), self.seconds), self.offset, "tar headers")

    def read_record(self):
        b = self.b
        need(list(b.fields) == [b"WS", b"WP"], b.start, f"B's fields are {list(b.fields)}")
        ws, wp = b.fields[b"WS"], b.fields[b"WP"]
        need(len(ws) == 17 and ws[:9] == TAIL, b.start + 24, "WS")
        need(wp[:10] == PLAIN and len(wp) <= 15872, b.start + 45, "WP")
        head = inflate(wp[10:], b.start + 59)
        warc, _, block = head.partition(b"\r\n\r\n")
        http, end, cut = block.partition(b"\r\n\r\n")
        need(end, b.start + 49, "the HTTP header has no end")
        self.http = http + end
        self.read_warc(warc.decode().split("\r\n"))
        length = int(self.warc["Content-Length"]) - len(self.http)
        self.read_body(length if self.headers else 0)
        block += self.body
        need(len(block) == length + len(self.http), b.start + 49, "Content-Length")
        need(digest(block) == self.warc["WARC-Block-Digest"], b.start + 49, "block digest")
        if self.kind != "revisit":
            need(digest(cut + self.body) == self.warc["WARC-Payload-Digest"], b.start + 49, "payload digest")
        need(not cut or not self.headers and self.kind == "response", b.start + 49, "a body in WP")
        need(ws[9:] == trailer(head + self.body + b"\r\n\r\n"), b.start + 37, "CRC32 or ISIZE of the record")
        self.record = self.file[b.start + 49:b.end - 8 - len(self.pad)] + self.file[b.start + 28:b.start + 45]
        if self.headers:
            self.kind, self.name = "page", file_name(self.url)
            want = tar_headers(self.name, len(self.body), self.nanoseconds // 10**9, self.mime,
                               self.warc.get("WARC-Truncated", ""), self.url if len(self.url) <= 2048 else "")
            need(self.headers == want, self.offset, "the tar headers are not those of the record")

    def read_warc(self, lines):
        at, self.name = self.b.start + 49, ""
        need(lines[0] == "WARC/1.1", at, lines[0])
        self.warc = dict(line.split(": ", 1) for line in lines[1:])
        need(len(self.warc) == len(lines) - 1 and list(self.warc) == [h for h in HEADERS if h in self.warc], at, "header lines")
        w = self.warc
        self.kind, self.url, self.mime = w["WARC-Type"], w["WARC-Target-URI"], media_type(self.http)
        self.nanoseconds = read_time(w["WARC-Date"])
        need(self.kind in ("response", "revisit") and w["Content-Type"] == CONTENT_TYPE, at, "type")
        text = f"{self.kind}\n{self.url}\n{self.nanoseconds}\n{w['WARC-Payload-Digest']}"
        uuid = bytearray(hashlib.sha256(text.encode()).digest()[:16])
        uuid[6], uuid[8] = uuid[6] & 15 | 0x80, uuid[8] & 63 | 0x80
        uuid = re.sub("(.{8})(....)(....)(....)(.*)", r"\1-\2-\3-\4-\5", uuid.hex())
        need(w["WARC-Record-ID"] == f"<urn:uuid:{uuid}>", at, "record ID")
        if self.kind == "revisit":
            need(w["WARC-Refers-To-Target-URI"] == self.url, at, "refers to another URL")
        self.status = self.http.split(b"\r\n")[0].split(b" ")[1].decode()

    def numbers(self, base):
        """The nine numbers of the index line."""
        t, b = self.t, self.b
        return [self.offset - base, t.length, len(self.headers), zlib.crc32(self.headers), b.length, len(b.fields[b"WP"]),
                len(self.body), zlib.crc32(self.body), zlib.crc32(self.record)]

    def index_line(self, base, warc_offset):
        w, (second, nanos) = self.warc, divmod(self.nanoseconds, 10**9)
        mime = "warc/revisit" if self.kind == "revisit" else self.mime or "unk"
        line = {"url": self.url, "mime": mime, "status": self.status, "digest": w["WARC-Payload-Digest"],
                "length": str(len(self.record)), "offset": str(warc_offset), "truncated": w.get("WARC-Truncated"), "ns": nanos,
                "refers": w.get("WARC-Refers-To-Date"), "cell": self.numbers(base)}
        line = {key: value for key, value in line.items() if value or key in ("url", "cell")}
        text = json.dumps(line, ensure_ascii=False, separators=(",", ":"))
        return f"{time.strftime('%Y%m%d%H%M%S', time.gmtime(second))} {text}\n"


class End(Exception):
    """The end member; carries WI's two numbers, or nothing."""


def end_member(file, offset):
    member = Member(file, offset)
    final = zero_block(1024, True)
    if file[member.blocks:member.end - 8] == final and set(member.fields) <= {b"WI"}:
        need(member.decode(file, final, bytes(1024)) == b"", offset, "end member")
        return struct.unpack("<QQ", member.fields[b"WI"]) if member.fields else ()
    return None


def cells(file):
    """Walks a file from member to member, checking each index against the cells before it."""
    offset, pending, index = 0, [], None
    while (wi := end_member(file, offset)) is None:
        cell = Cell(file, offset)
        if cell.kind != "tar-only":
            pending.append(cell)
        elif cell.name != "_batch/manifest.json":
            check_index(cell, pending)
            yield from pending
            pending, index = [], (cell.offset, cell.end - cell.offset)
        else:
            need(cell.seconds == 0 and not pending, offset, "manifest")
        if cell.kind == "tar-only":
            yield cell
        offset = cell.end
    yield from pending
    end = offset + (62 if wi else 42)
    need(end == len(file), end, "bytes after the end member")
    need(not wi or wi == index, offset, f"WI is {wi}")


def check_index(index, before):
    base, warc_offset = before[0].offset if before else index.offset, len(warcinfo())
    directory, _, name = index.name.partition("/_meta/")
    need(re.fullmatch(r"[A-Za-z0-9._-]+\.cdxj", name), index.offset, f"index called {index.name}")
    lines = index.body.decode().splitlines(keepends=True)
    need(len(lines) == len(before), index.offset, f"{len(lines)} lines for {len(before)} cells")
    for line, cell in zip(lines, before):
        want = cell.index_line(base, warc_offset)
        need(line.split(" ", 1)[1] == want, index.offset, f"line {line!r}, not {want!r}")
        need(host_directory(host_of(cell.url)) == directory, cell.offset, "a cell of another host")
        warc_offset += len(cell.record)
    latest = max((c.nanoseconds // 10**9 for c in before), default=0)
    need(index.seconds == latest, index.offset, f"the index's time is {index.seconds}, not {latest}")


def single(file, out):
    crc, size = 0, 0
    out.write(PLAIN)
    for cell in cells(file):
        if not cell.headers:
            continue
        zeros = -len(cell.body) % 512
        out.write(file[cell.t.blocks:cell.t.end - 10])
        out.write(file[cell.b.blocks:cell.b.end - 8 - len(cell.pad)])
        out.write(zero_block(zeros, False) if zeros else b"")
        for part in cell.headers, cell.body, bytes(zeros):
            crc, size = zlib.crc32(part, crc), size + len(part)
    end = bytes(1024)
    out.write(zero_block(1024, True) + struct.pack("<II", zlib.crc32(end, crc), size + 1024 & 0xFFFFFFFF))


def main(command, path, *rest):
    with open(path, "rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as file:
        if command == "list":
            for c in cells(file):
                record = getattr(c, "record", b"")
                seconds = c.seconds if c.kind == "tar-only" else c.nanoseconds // 10**9
                print(c.kind, c.offset, c.name, c.url, seconds, len(c.body), hashlib.sha256(c.body).hexdigest(),
                      len(record), hashlib.sha256(record).hexdigest(), sep="\t")
        elif command == "body":
            sys.stdout.buffer.write(next(c.body for c in cells(file) if c.kind == "page" and c.url == rest[0]))
        elif command == "index":
            offset, length = end_member(file, len(file) - 62)
            index = Cell(file, offset)
            need(index.end == offset + length, offset, "WI")
            sys.stdout.buffer.write(index.body)
        else:
            with open(rest[0], "wb") as out:
                if command == "single":
                    single(file, out)
                else:
                    out.write(warcinfo())
                    out.writelines(c.record for c in cells(file) if c.kind != "tar-only")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Wrong as wrong:
        sys.exit(f"{sys.argv[2]}: {wrong}")
