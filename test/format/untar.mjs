// Lists a tar.gz by means of node:zlib alone: name, size, time, SHA-256, URL and media type of each
// file, with tabs between. With a number after the file's name the gunzip stream is fed that many
// bytes at once, as a slow network would; without one the whole is decoded in one call.
import fs from "node:fs";
import zlib from "node:zlib";
import { createHash } from "node:crypto";

async function* decoded(path, chunk) {
  if (!chunk) {
    yield zlib.gunzipSync(fs.readFileSync(path));
    return;
  }
  yield* fs.createReadStream(path, { highWaterMark: chunk }).pipe(zlib.createGunzip());
}

// reader gives exact numbers of bytes out of chunks of any size.
function reader(chunks) {
  let rest = Buffer.alloc(0);
  const some = async (n) => {
    while (rest.length === 0) {
      const { value, done } = await chunks.next();
      if (done) return null;
      rest = value;
    }
    const out = rest.subarray(0, n);
    rest = rest.subarray(out.length);
    return out;
  };
  const pass = async (n, to) => {
    while (n > 0) {
      const part = await some(n);
      if (!part) throw new Error("ends too soon");
      to(part);
      n -= part.length;
    }
  };
  const exactly = async (n) => {
    const parts = [];
    await pass(n, (part) => parts.push(part));
    return Buffer.concat(parts);
  };
  return { some, pass, exactly };
}

const text = (b) => b.toString("utf8").replace(/\0.*$/s, "");
const octal = (b) => parseInt(text(b).trim(), 8);

function readPax(data) {
  const pax = {};
  while (data.length > 0) {
    const length = parseInt(data.toString("latin1"), 10);
    const record = data.subarray(data.indexOf(" ") + 1, length - 1).toString("utf8");
    pax[record.slice(0, record.indexOf("="))] = record.slice(record.indexOf("=") + 1);
    data = data.subarray(length);
  }
  return pax;
}

const [path, chunk] = process.argv.slice(2);
const input = reader(decoded(path, Number(chunk))[Symbol.asyncIterator]());
const out = [];
let pax = {};
for (let zeros = 0; zeros < 2; ) {
  const block = await input.exactly(512);
  if (block.every((b) => b === 0)) {
    zeros++;
    continue;
  }
  const sum = block.reduce((s, b, i) => s + (i >= 148 && i < 156 ? 32 : b), 0);
  if (zeros > 0 || sum !== octal(block.subarray(148, 156))) throw new Error("not a tar header");
  const size = octal(block.subarray(124, 136));
  const type = String.fromCharCode(block[156]);
  if (type === "x") {
    pax = readPax(await input.exactly(size));
  } else if (type === "0") {
    const sha = createHash("sha256");
    await input.pass(size, (part) => sha.update(part));
    const name = pax.path ?? text(block.subarray(0, 100));
    const url = pax["SCHILY.xattr.user.xdg.origin.url"] ?? "";
    const mime = pax["SCHILY.xattr.user.mime_type"] ?? "";
    out.push([name, size, octal(block.subarray(136, 148)), sha.digest("hex"), url, mime].join("\t") + "\n");
    pax = {};
  } else {
    throw new Error(`entry of type ${type}`);
  }
  await input.exactly((512 - (size % 512)) % 512);
}
if (await input.some(1)) throw new Error("bytes after the tar's end");
process.stdout.write(out.join(""));
