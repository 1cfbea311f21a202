#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What clean-room.sh passes into its root, and how it reads its arguments: python3 scripts/test_clean_room.py"""

import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).with_name("clean-room.sh")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
BUNDLE = "/etc/ssl/certs/ca-certificates.crt"


def run(*arguments, **environment):
    """The script with this environment and no other."""
    return subprocess.run(
        [SCRIPT, *arguments], env={"PATH": PATH} | environment, capture_output=True, text=True, check=False
    )


def call(function, *arguments, **environment):
    """Output of one function of the script."""
    command = ["bash", "-c", 'source "$1"; shift; "$@"', "-", SCRIPT, function, *arguments]
    return subprocess.run(command, env={"PATH": PATH} | environment, capture_output=True, text=True, check=True).stdout


class Settings(unittest.TestCase):
    def passed(self, **environment):
        """The variables that the root gets, but for those that it always has."""
        pairs = dict(line.split("=", 1) for line in call("settings", **environment).splitlines())
        for name in ("HOME", "LANG", "TERM", "PATH"):
            self.assertNotEqual(pairs.pop(name), "")
        return pairs

    def test_a_registry_proxy_or_time_out_is_passed_as_it_is(self):
        settings = {
            "https_proxy": "http://proxy:3128", "NO_PROXY": "localhost", "PIP_INDEX_URL": "https://host/simple?a=b c",
            "CARGO_REGISTRIES_X_INDEX": "sparse+https://host/", "CARGO_NET_RETRY": "5", "npm_config_registry": "https://host/",
            "GOPROXY": "https://host/go",
        }
        self.assertEqual(self.passed(**settings), settings)

    def test_the_rest_of_the_environment_is_not_passed(self):
        others = {
            "CARGO_HOME": "/x", "CARGO_TARGET_DIR": "/x", "CARGO_BUILD_JOBS": "9", "RUSTFLAGS": "-C x", "CC": "cc",
            "RUSTUP_HOME": "/x", "PYTHONPATH": "/x", "PIP_REQUIRE_VIRTUALENV": "1", "DEBIAN_FRONTEND": "noninteractive",
        }
        self.assertEqual(self.passed(**others), {})

    def test_a_path_of_this_machine_is_not_passed(self):
        self.assertEqual(self.passed(PIP_EXTRA_INDEX_URL="/opt/wheels"), {})

    def test_a_token_to_publish_with_is_not_passed(self):
        self.assertEqual(self.passed(CARGO_REGISTRY_TOKEN="x", CARGO_REGISTRIES_X_TOKEN="x", NPM_TOKEN="x"), {})

    def test_a_bundle_of_cas_is_the_bundle_of_the_root(self):
        self.assertEqual(self.passed(SSL_CERT_FILE="/x.pem", PIP_CERT="/y.pem"), {"SSL_CERT_FILE": BUNDLE, "PIP_CERT": BUNDLE})

    def test_a_value_of_two_lines_is_not_passed(self):
        self.assertEqual(self.passed(PIP_INDEX_URL="a\nLD_PRELOAD=b"), {})


class Certificates(unittest.TestCase):
    def test_only_certificates_that_the_root_does_not_have_are_added_each_once(self):
        certificate = "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n".format
        with tempfile.TemporaryDirectory() as folder:
            root, host, to = (Path(folder) / name for name in ("root.pem", "host.pem", "to"))
            to.mkdir()
            root.write_text(certificate("a") + certificate("b"))
            host.write_text("# c\n" + certificate("c") + certificate("a") + certificate("c") + certificate("d"))
            call("add_certificates", root, host, to)
            self.assertEqual(sorted(f.read_text() for f in to.iterdir()), [certificate("c"), certificate("d")])

    def test_a_root_without_certificates_gets_all(self):
        with tempfile.TemporaryDirectory() as folder:
            root, host, to = (Path(folder) / name for name in ("root.pem", "host.pem", "to"))
            to.mkdir()
            root.write_text("")
            host.write_text("-----BEGIN X-----\na\n-----END X-----\n")
            call("add_certificates", root, host, to)
            self.assertEqual(len(list(to.iterdir())), 1)


class Arguments(unittest.TestCase):
    def refused(self, *arguments):
        """The message of a run that makes nothing."""
        got = run(*arguments)
        self.assertEqual(got.returncode, 2, got)
        self.assertEqual(got.stdout, "")
        return got.stderr

    def test_help_is_the_usage(self):
        got = run("--help")
        self.assertEqual(got.returncode, 0)
        self.assertEqual(len(got.stdout.splitlines()), 3)
        self.assertTrue(all("scripts/clean-room.sh" in line for line in got.stdout.splitlines()), got.stdout)

    def test_an_unknown_option_is_refused(self):
        self.assertIn("scripts/clean-room.sh [--keep", self.refused("--kep"))

    def test_a_target_that_the_makefile_does_not_have_is_named(self):
        self.assertIn("no target tset", self.refused("lab", "tset"))
        self.assertIn("no target .*", self.refused(".*"))

    def test_a_root_that_was_not_kept_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn("--in needs a root", self.refused("--in", folder, "lab"))
        self.assertIn("--in needs a root", self.refused("--in"))

    def test_two_dashes_need_a_command(self):
        self.assertIn("scripts/clean-room.sh [--keep", self.refused("--"))


if __name__ == "__main__":
    unittest.main()
