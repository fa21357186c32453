"""Reads a ZipNum cluster as its description has it, and knows nothing of who wrote it:
https://github.com/webrecorder/pywb/wiki/CDX-Index-Format#zipnum-sharded-cdx

    zipnum.py CLUSTER.idx KEY END

prints the CDX lines from KEY up to END. The secondary index is bisected for the block before the
first that begins at or behind KEY; location.txt beside it says where a part is; blocks are
gzip members at (offset, length).
"""
import bisect, json, os, sys, zlib


def locations(summary):
    base = os.path.dirname(summary)
    with open(os.path.join(base, "location.txt")) as f:
        for line in f:
            part, *paths = line.rstrip("\n").split("\t")
            yield part, [os.path.join(base, p) for p in paths]


def blocks(summary, key, end):
    with open(summary) as f:
        lines = [line.rstrip("\n").split("\t") for line in f]
    heads = [line[0] for line in lines]
    if heads != sorted(heads):
        sys.exit("the secondary index is not sorted")
    if [int(line[4]) for line in lines] != list(range(1, len(lines) + 1)):
        sys.exit("blocks are not numbered")
    for line in lines[max(bisect.bisect_left(heads, key) - 1, 0):]:
        if line[0] >= end:
            return
        yield line[1], int(line[2]), int(line[3])


def main(summary, key, end):
    where = dict(locations(summary))
    for part, offset, length in blocks(summary, key, end):
        with open(where[part][0], "rb") as f:
            f.seek(offset)
            member = zlib.decompressobj(16 + zlib.MAX_WBITS)
            text = member.decompress(f.read(length))
        if not member.eof or member.unused_data:
            sys.exit("block at %d is not one gzip member of %d bytes" % (offset, length))
        for line in text.decode("ascii").splitlines():
            if key <= line < end:
                urlkey, timestamp, fields = line.split(" ", 2)
                fields = json.loads(fields)
                if len(timestamp) != 14 or not {"url", "mime", "status", "digest", "length", "offset", "filename"} <= fields.keys():
                    sys.exit("no CDXJ line: " + line)
                print(line)


main(*sys.argv[1:])
