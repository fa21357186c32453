// Reads a warc.gz record by record, without a WARC library, and checks of each: one gzip member, its CRC32
// and ISIZE, the version line, Content-Length, CRLFCRLF at its end, WARC-Block-Digest and
// WARC-Payload-Digest. Prints type, URL, offset, length and HTTP status, with tabs between.
import fs from "node:fs";
import zlib from "node:zlib";
import { createHash } from "node:crypto";

const table = new Int32Array(256).map((_, n) => {
  for (let k = 0; k < 8; k++) n = n & 1 ? (n >>> 1) ^ 0xedb88320 : n >>> 1;
  return n;
});

function crc32(data) {
  let crc = -1;
  for (let i = 0; i < data.length; i++) crc = table[(crc ^ data[i]) & 255] ^ (crc >>> 8);
  return ~crc >>> 0;
}

function base32(bytes) {
  const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
  let out = "", acc = 0, bits = 0;
  for (const b of bytes) {
    acc = (acc << 8) | b;
    for (bits += 8; bits >= 5; bits -= 5) out += letters[(acc >>> (bits - 5)) & 31];
    acc &= (1 << bits) - 1;
  }
  if (bits > 0) out += letters[(acc << (5 - bits)) & 31];
  return out.padEnd(Math.ceil(out.length / 8) * 8, "=");
}

const digest = (data) => "sha256:" + base32(createHash("sha256").update(data).digest());

const file = fs.readFileSync(process.argv[2]);

function fail(offset, message) {
  throw new Error(`record at ${offset}: ${message}`);
}

// member decodes the gzip member at an offset, and tells where the next begins.
function member(offset) {
  if (file.readUInt32BE(offset) !== 0x1f8b0800) fail(offset, "is not a gzip member without extra fields");
  const { buffer, engine } = zlib.inflateRawSync(file.subarray(offset + 10), { info: true });
  const end = offset + 10 + engine.bytesWritten;
  if (file.readUInt32LE(end) !== crc32(buffer)) fail(offset, "CRC32 is wrong");
  if (file.readUInt32LE(end + 4) !== buffer.length) fail(offset, "ISIZE is wrong");
  return { record: buffer, next: end + 8 };
}

// parse divides the lines of a header, to its empty line, from what follows.
function parse(data, offset) {
  const end = data.indexOf("\r\n\r\n");
  if (end < 0) fail(offset, "a header without end");
  const [first, ...lines] = data.subarray(0, end).toString("latin1").split("\r\n");
  const fields = {};
  for (const line of lines) {
    const at = line.indexOf(": ");
    if (at > 0) fields[line.slice(0, at)] ??= line.slice(at + 2);
  }
  return { first, fields, rest: data.subarray(end + 4) };
}

const ids = new Set();
const out = [];
for (let offset = 0; offset < file.length; ) {
  const { record, next } = member(offset);
  const { first, fields, rest } = parse(record, offset);
  if (first !== "WARC/1.1") fail(offset, `begins with ${first}`);
  const length = Number(fields["Content-Length"]);
  const block = rest.subarray(0, length);
  if (block.length !== length) fail(offset, `Content-Length is ${length}, there are ${block.length} bytes`);
  if (rest.subarray(length).toString("latin1") !== "\r\n\r\n") fail(offset, "does not end with CRLFCRLF alone");
  const id = fields["WARC-Record-ID"];
  if (!/^<urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}>$/.test(id)) fail(offset, `ID is ${id}`);
  if (Number.isNaN(Date.parse(fields["WARC-Date"]))) fail(offset, `date is ${fields["WARC-Date"]}`);
  const type = fields["WARC-Type"];
  let status = 0;
  if (type !== "warcinfo") {
    if (ids.has(id)) fail(offset, `has the ID of another record, ${id}`);
    ids.add(id);
    if (digest(block) !== fields["WARC-Block-Digest"]) fail(offset, `block digest is ${digest(block)}, not ${fields["WARC-Block-Digest"]}`);
    const http = parse(block, offset);
    status = Number(http.first.split(" ")[1]);
    if (type === "response" && digest(http.rest) !== fields["WARC-Payload-Digest"]) {
      fail(offset, `payload digest is ${digest(http.rest)}, not ${fields["WARC-Payload-Digest"]}`);
    }
    if (type === "revisit" && http.rest.length > 0) fail(offset, "a revisit with a body");
  }
  out.push([type, fields["WARC-Target-URI"] ?? "", offset, next - offset, status].join("\t") + "\n");
  offset = next;
}
process.stdout.write(out.join(""));
