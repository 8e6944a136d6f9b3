"""A mail server on loopback: prints its port, then each message that it takes as one line of JSON.

With a certificate and a password it requires STARTTLS and a sign-in.
"""

import asyncio
import json
import ssl
import sys

from aiosmtpd.controller import UnthreadedController
from aiosmtpd.smtp import AuthResult


class Printer:
    async def handle_DATA(self, server, session, envelope):
        said = {
            "from": envelope.mail_from,
            "to": envelope.rcpt_tos,
            "text": envelope.content.decode(),
            "tls": session.ssl is not None,
            "user": session.auth_data.login.decode() if session.auth_data else None,
        }
        print(json.dumps(said), flush=True)
        return "250 taken"


def settings():
    if len(sys.argv) == 1:
        return {}
    certificate, key, password = sys.argv[1:]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    def sign_in(server, session, envelope, mechanism, data):
        if data.password.decode() != password:
            return AuthResult(success=False, handled=False)
        return AuthResult(success=True, auth_data=data)

    return {
        "tls_context": context,
        "require_starttls": True,
        "auth_required": True,
        "authenticator": sign_in,
    }


loop = asyncio.new_event_loop()
controller = UnthreadedController(Printer(), "127.0.0.1", 0, loop=loop, **settings())
controller.begin()
print(controller.server.sockets[0].getsockname()[1], flush=True)
loop.run_forever()
