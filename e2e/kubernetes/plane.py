# SPDX-License-Identifier: Apache-2.0
"""The control plane of a cluster: etcd, API server, controller manager and scheduler in one place."""

import json
import secrets

import audit
from certificates import Authority
from place import Place, until

ADDRESS = "10.77.0.1"
SERVICES = "10.96.0.0/16"
# What pods find the API server by.
API_SERVICE = "10.96.0.1"
SERVER = f"https://{ADDRESS}:6443"
# Who has a token, and the groups of each.
USERS = {
    "admin": ("system:masters",),
    "system:kube-controller-manager": (),
    "system:kube-scheduler": (),
    "system:kube-proxy": (),
}


class Plane:
    """The control plane; `kubeconfig(user)` is a file for one of its users."""

    def __init__(self, directory, group, programs, nodes):
        self.programs = programs
        self.place = Place("control-plane", directory, group)
        self.authority = Authority(self.place.directory / "pki")
        self.users = USERS | {f"system:node:{node}": ("system:nodes",) for node in nodes}
        self.tokens = {user: secrets.token_hex(16) for user in self.users}
        self.issue(nodes)
        self.audit = self.place.directory / "audit.log"
        (self.place.directory / "audit.json").write_text(json.dumps(audit.POLICY))

    def path(self, name):
        return str(self.place.directory / "pki" / name)

    def issue(self, nodes):
        """Makes all credentials."""
        names = ["kubernetes", "kubernetes.default", "kubernetes.default.svc"]
        self.authority.issue("apiserver", "/CN=kube-apiserver", [ADDRESS, API_SERVICE, "127.0.0.1"], names)
        self.authority.issue("kubelet-client", "/O=system:masters/CN=kube-apiserver-kubelet-client")
        for node, address in nodes.items():
            self.authority.issue(f"kubelet-{node}", f"/O=system:nodes/CN=system:node:{node}", [address], [node])
        self.authority.key("accounts")
        lines = [f'{self.tokens[user]},{user},{user},"{",".join(groups)}"' for user, groups in self.users.items()]
        (self.place.directory / "pki/tokens.csv").write_text("\n".join(lines) + "\n")

    def kubeconfig(self, user):
        """A file by which a user reaches the API server."""
        path = self.place.directory / "pki" / f"{user.replace(':', '-')}.kubeconfig"
        cluster = {"server": SERVER, "certificate-authority": self.path("ca.crt")}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": self.tokens[user]}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
            "current-context": "test",
        }
        path.write_text(json.dumps(config))
        path.chmod(0o600)
        return str(path)

    def start(self):
        """Starts everything, in its order."""
        data = self.place.directory / "lib/etcd"
        client = "http://127.0.0.1:2379"
        # What a test stores is gone with it: nothing has to reach the disk.
        self.place.start("etcd", self.programs / "etcd", f"--data-dir={data}", f"--listen-client-urls={client}", f"--advertise-client-urls={client}", "--unsafe-no-fsync", "--log-level=warn")
        self.start_api_server()
        kubeconfig = self.kubeconfig("system:kube-controller-manager")
        accounts = (f"--service-account-private-key-file={self.path('accounts.key')}", f"--root-ca-file={self.path('ca.crt')}", "--use-service-account-credentials=true")
        manager = (f"--kubeconfig={kubeconfig}", f"--authentication-kubeconfig={kubeconfig}", f"--authorization-kubeconfig={kubeconfig}", "--leader-elect=false")
        self.place.start("kube-controller-manager", self.programs / "kube-controller-manager", *manager, *accounts)
        kubeconfig = self.kubeconfig("system:kube-scheduler")
        scheduler = (f"--kubeconfig={kubeconfig}", f"--authentication-kubeconfig={kubeconfig}", f"--authorization-kubeconfig={kubeconfig}", "--leader-elect=false")
        self.place.start("kube-scheduler", self.programs / "kube-scheduler", *scheduler)

    def start_api_server(self):
        """Starts the API server and waits until it is ready."""
        self.place.start(
            "kube-apiserver",
            self.programs / "kube-apiserver",
            "--etcd-servers=http://127.0.0.1:2379",
            f"--advertise-address={ADDRESS}",
            "--secure-port=6443",
            f"--service-cluster-ip-range={SERVICES}",
            f"--tls-cert-file={self.path('apiserver.crt')}",
            f"--tls-private-key-file={self.path('apiserver.key')}",
            f"--client-ca-file={self.path('ca.crt')}",
            f"--token-auth-file={self.path('tokens.csv')}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged",
            f"--audit-policy-file={self.place.directory / 'audit.json'}",
            f"--audit-log-path={self.audit}",
            # There is no DNS.
            "--kubelet-preferred-address-types=InternalIP",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.path('accounts.key')}",
            f"--service-account-signing-key-file={self.path('accounts.key')}",
            f"--kubelet-client-certificate={self.path('kubelet-client.crt')}",
            f"--kubelet-client-key={self.path('kubelet-client.key')}",
            f"--kubelet-certificate-authority={self.path('ca.crt')}",
        )

        def ready():
            self.place.check()
            return self.kubectl("get", "--raw", "/readyz", check=False).returncode == 0

        until("the API server is ready", 120, ready)

    def kubectl(self, *arguments, **more):
        """Runs kubectl as an administrator."""
        return self.place.run(self.programs / "kubectl", f"--kubeconfig={self.kubeconfig('admin')}", *arguments, **more)

    def helm(self, *arguments, **more):
        """Runs helm as an administrator; it keeps nothing outside the place."""
        home = self.place.directory / "helm"
        own = {f"HELM_{name}_HOME": str(home / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(home), **own}
        return self.place.run(self.programs / "helm", f"--kubeconfig={self.kubeconfig('admin')}", *arguments, env=environment, **more)
