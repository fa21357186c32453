"""Lists a tar.gz by means of the tarfile module: name, size, time, SHA-256, URL and media type of each
file, with tabs between. The second argument is tarfile's mode, r:gz or r|gz."""

import hashlib
import sys
import tarfile

with tarfile.open(sys.argv[1], sys.argv[2]) as tar:
    for entry in tar:
        assert entry.isreg(), entry
        data = tar.extractfile(entry)
        digest = hashlib.sha256()
        while part := data.read(1 << 20):
            digest.update(part)
        url = entry.pax_headers.get("SCHILY.xattr.user.xdg.origin.url", "")
        mime = entry.pax_headers.get("SCHILY.xattr.user.mime_type", "")
        print(entry.name, entry.size, int(entry.mtime), digest.hexdigest(), url, mime, sep="\t")
        tar.members.clear()  # else it remembers every entry
