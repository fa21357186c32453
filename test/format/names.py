"""Hosts and file names as the section Names of archive/FORMAT.md has them."""

import base64
import hashlib
import re

PLAIN = re.compile(r"[a-z0-9\-._~+,=@]*")
UNSAFE = re.compile(r"[^A-Za-z0-9\-._~+,=@]")
EXTENSION = re.compile(r"(?<=.)\.[A-Za-z][A-Za-z0-9]{0,7}$", re.S)
DEVICE = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)", re.I)


def host_of(url):
    scheme, _, rest = url.partition("://")
    return rest.partition("/")[0].lower().removesuffix({"http": ":80", "https": ":443"}[scheme])


def host_directory(host):
    name, _, port = re.fullmatch(r"(\[.*\]|[^:]*)(:(\d+))?", host).groups()
    name = name.replace(":", "-") if name.startswith("[") else name
    if port:
        return f"{name}_{port}"
    return name + "_" if re.search(r"_\d*$", name) or name in ("_meta", "_batch") or DEVICE.match(name) else name


def split_extension(part):
    found = EXTENSION.search(part)
    return (part[:found.start()], found.group()) if found else (part, "")


def safe(part):
    part = part[:80]
    return "_" if not part.strip(".") else UNSAFE.sub("_", part)


def directory(part):
    out = safe(part)
    out = out[:1] + out[1:].replace("~", "_")
    if DEVICE.match(out):
        out = "_" + out
    return out + "_" if split_extension(out)[1] or out.endswith(".") else out


def file_name(url):
    scheme, _, rest = url.partition("://")
    path, query, _ = rest.partition("/")[2].partition("?")
    *directories, leaf = path.split("/")
    stem, extension = split_extension(leaf) if leaf else ("index", ".html")
    plain = (
        scheme == "http" and not query and len(leaf) <= 80 and leaf != "index.html"
        and all(PLAIN.fullmatch(part) and directory(part) == part for part in directories) and directories[:1] != ["_meta"]
        and PLAIN.fullmatch(leaf) and extension and "~" not in leaf and not DEVICE.match(leaf)
    )
    mark = "~" + base64.b32encode(hashlib.sha256(url.encode()).digest()[:10]).decode().lower()
    if not plain:
        directories = [directory(part) for part in directories]
        if directories[:1] == ["_meta"]:
            directories[0] += "_"
        stem = safe(stem)
        stem = ("_" if DEVICE.match(stem) else "") + stem + mark
    name = "/".join([*directories, stem + extension])
    if len(name) > 220:
        name = "_long/" + stem + (mark if plain else "") + extension
    return host_directory(host_of(url)) + "/" + name
