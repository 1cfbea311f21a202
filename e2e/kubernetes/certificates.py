# SPDX-License-Identifier: Apache-2.0
"""Keys and certificates of a cluster for tests, by openssl."""

from place import sh

DAYS = "2"


class Authority:
    """An authority in a directory; `ca.crt` is its certificate."""

    def __init__(self, directory):
        self.directory = directory
        directory.mkdir(parents=True)
        extensions = ("-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign,cRLSign")
        self.openssl("req", "-x509", "-new", "-key", self.key("ca"), "-subj", "/CN=canopy-kubernetes-test", "-days", DAYS, *extensions, "-out", directory / "ca.crt")

    def openssl(self, *arguments):
        return sh("openssl", *arguments)

    def key(self, name):
        """Makes a key."""
        path = self.directory / f"{name}.key"
        self.openssl("ecparam", "-genkey", "-name", "prime256v1", "-noout", "-out", path)
        return path

    def issue(self, name, subject, addresses=(), names=()):
        """Makes a key and a certificate, for a server with these names and for a client."""
        key, request, extensions = self.key(name), self.directory / f"{name}.csr", self.directory / f"{name}.ext"
        alternatives = ",".join([*(f"IP:{address}" for address in addresses), *(f"DNS:{of}" for of in names)])
        lines = ["extendedKeyUsage=serverAuth,clientAuth", *([f"subjectAltName={alternatives}"] if alternatives else [])]
        extensions.write_text("\n".join(lines) + "\n")
        self.openssl("req", "-new", "-key", key, "-subj", subject, "-out", request)
        ca = ("-CA", self.directory / "ca.crt", "-CAkey", self.directory / "ca.key", "-CAcreateserial")
        self.openssl("x509", "-req", "-in", request, *ca, "-days", DAYS, "-extfile", extensions, "-out", self.directory / f"{name}.crt")
