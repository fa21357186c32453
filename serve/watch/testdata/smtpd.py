"""A mail server for tests: STARTTLS, a login, and a directory that mails go into.

usage: smtpd.py ADDRESS PORT CERT KEY DIRECTORY    says "ready", then runs until its standard input ends

later@example.jp is refused for the time being the first time; nobody@example.jp is refused.
"""
import os
import ssl
import sys

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

address, port, cert, key, directory = sys.argv[1:]
refused = set()


class Handler:
    count = 0

    async def handle_RCPT(self, server, session, envelope, address, options):
        if address == "nobody@example.jp":
            return "550 5.1.1 no such mailbox"
        if address == "later@example.jp" and address not in refused:
            refused.add(address)
            return "451 4.3.0 come again"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        Handler.count += 1
        name = os.path.join(directory, "%04d" % Handler.count)
        with open(name + ".new", "wb") as out:
            out.write(("X-To: %s\r\nX-TLS: %s\r\n" % (",".join(envelope.rcpt_tos), session.ssl is not None)).encode())
            out.write(envelope.content)
        os.rename(name + ".new", name)
        return "250 taken"


def authenticate(server, session, envelope, mechanism, data):
    return AuthResult(success=data.login == b"sheaf" and data.password == b"geheim")


context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
context.load_cert_chain(cert, key)
controller = Controller(
    Handler(), hostname=address, port=int(port), tls_context=context,
    require_starttls=True, authenticator=authenticate, auth_required=True, ready_timeout=60, # seconds, on a busy machine
)
controller.start()
print("ready", flush=True)
sys.stdin.read()
controller.stop()
