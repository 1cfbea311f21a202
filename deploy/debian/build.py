#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the Debian packages of packages.py from programs that are built already. Needs dpkg-deb and binutils, and no network.

    build.py PROFILE_DIRECTORY OUT_DIRECTORY [SBOM_DIRECTORY]
"""

import gzip
import os
import re
import shutil
import subprocess
import sys
import tempfile
from email.utils import formatdate
from pathlib import Path

sys.dont_write_bytecode = True  # no __pycache__ in the sources
sys.path.insert(0, str(Path(__file__).resolve().parent))
import manual  # noqa: E402
from packages import LIBRARY, PACKAGES, SONAME  # noqa: E402

TOP = Path(__file__).resolve().parents[2]
HERE = TOP / "deploy/debian"
# As Debian's own tools have it; no address is invented for a build without a signature.
MAINTAINER = f"{os.environ.get('DEBFULLNAME', 'The Canopy authors')} <{os.environ.get('DEBEMAIL', 'canopy@localhost')}>"
# Shared library -> package that has it, in Debian 12 and later.
LIBRARIES = {
    "libc.so.6": "libc6",
    "libm.so.6": "libc6",
    "ld-linux-x86-64.so.2": "libc6",
    "ld-linux-aarch64.so.1": "libc6",
    "libgcc_s.so.1": "libgcc-s1",
    "libelf.so.1": "libelf1 | libelf1t64",
    "libz.so.1": "zlib1g",
}
COMPLETIONS = {
    "bash": "usr/share/bash-completion/completions/canopyctl",
    "zsh": "usr/share/zsh/vendor-completions/_canopyctl",
    "fish": "usr/share/fish/vendor_completions.d/canopyctl.fish",
}


def run(*command, **more):
    """Output of a command that must succeed."""
    return subprocess.run(command, check=True, capture_output=True, text=True, **more).stdout


def version():
    """Version of the packages and time of the source. A commit without a release's tag precedes the release."""
    base = re.search(r'^version = "(.*)"', (TOP / "Cargo.toml").read_text(), re.M)[1]
    git = ["git", "-C", str(TOP)]
    known = subprocess.run([*git, "log", "-1", "--format=%ct %cd %h", "--date=format:%Y%m%d%H%M%S"], capture_output=True, text=True, check=False)
    if known.returncode != 0:
        # The sources are no clone: an archive has the times of their files.
        return f"{base}~unknown", int(os.environ.get("SOURCE_DATE_EPOCH", (TOP / "CHANGELOG.md").stat().st_mtime))
    seconds, stamp, commit = known.stdout.split()
    tagged = subprocess.run([*git, "describe", "--exact-match", "--tags", f"--match=v{base}"], capture_output=True, check=False)
    return (base if tagged.returncode == 0 else f"{base}~git{stamp}.{commit}"), int(seconds)


def copy(source, destination, mode=None):
    """Copies a file, or a directory's files without what Python leaves there."""
    if source.is_dir():
        for found in sorted(source.rglob("*")):
            if found.is_file() and "__pycache__" not in found.parts:
                copy(found, destination / found.relative_to(source))
        return
    destination.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, destination)
    executable = os.access(source, os.X_OK) and source.suffix != ".so"
    destination.chmod(mode if mode is not None else 0o755 if executable else 0o644)


def compressed(path):
    """Replaces a file by its gzip, without a name and a time in it."""
    data = path.read_bytes()
    target = path.with_name(path.name + ".gz")
    with target.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed:
        packed.write(data)
    target.chmod(0o644)
    path.unlink()


def needed(paths):
    """What the programs and libraries at `paths` depend on: packages of shared libraries, and the oldest C library that has all symbols."""
    packages, newest = set(), (0,)
    for path in paths:
        for library in re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", str(path))):
            if library not in LIBRARIES:
                raise SystemExit(f"{path} needs {library}: name its package in LIBRARIES")
            packages.add(LIBRARIES[library])
        for text in re.findall(r"GLIBC_([0-9.]+)", run("objdump", "-T", str(path))):
            newest = max(newest, tuple(int(part) for part in text.split(".")))
    if "libc6" in packages:
        packages.remove("libc6")
        packages.add(f"libc6 (>= {'.'.join(map(str, newest))})")
    return sorted(packages)


def script(kind, package):
    """A maintainer script, or None if the package needs none."""
    if not (package.enabled or package.restarted):
        return None
    text = (HERE / f"maintainer/{kind}.in").read_text()
    extra = HERE / f"maintainer/{package.name}.{kind}"
    values = {
        "PACKAGE": package.name,
        "UNITS": " ".join(dict.fromkeys(package.enabled + package.restarted)),
        "ENABLED": " ".join(package.enabled),
        "RESTARTED": " ".join(package.restarted),
        "STOPPED": " ".join(package.stopped),
        "EXTRA": extra.read_text().rstrip("\n") if extra.exists() else "",
    }
    text = re.sub(r"@([A-Z]+)@", lambda found: values[found[1]], text)
    # `for unit in ; do` is no error, and does nothing.
    return re.sub(r" *for unit in ; do\n.*?\n *done\n", "", text, flags=re.S)


def control(package, depends, of_version, architecture, size):
    """The package's control file."""
    lines = [
        f"Package: {package.name}",
        "Source: canopy",
        f"Version: {of_version}",
        f"Architecture: {architecture}",
        f"Maintainer: {MAINTAINER}",
        f"Installed-Size: {size}",
        f"Depends: {', '.join(depends)}",
    ]
    lines += [f"{name}: {', '.join(of)}" for name, of in (("Recommends", package.recommends), ("Suggests", package.suggests)) if of]
    lines += [f"Section: {package.section}", "Priority: optional", f"Description: {package.summary}"]
    lines += [f" {line}" for line in package.description.splitlines()]
    return "\n".join(lines) + "\n"


class Builder:
    """Builds every package from one directory of programs."""

    def __init__(self, build, out, sboms):
        self.build, self.out, self.sboms = build, out, sboms
        self.version, self.epoch = version()
        self.architecture = run("dpkg", "--print-architecture").strip()
        self.multiarch = run("gcc", "-print-multiarch").strip()

    def source(self, text):
        return self.build / text.removeprefix("$BUILD/") if text.startswith("$BUILD/") else TOP / text

    def place(self, package, root):
        """Copies everything; returns programs and libraries."""
        objects = []
        for source, to in (package.files | package.conffiles).items():
            source, to = self.source(source), to.replace("$MULTIARCH", self.multiarch)
            target = root / to / source.name if to.endswith("/") and source.is_file() else root / to
            copy(source, target, 0o644 if to.startswith(("etc/", "lib/", "usr/lib/x", "usr/include")) else None)
            if source.name == LIBRARY:
                objects.append(target)
        for program, section in package.programs.items():
            target = root / ("usr/bin" if section == 1 else "usr/sbin") / program
            copy(self.build / program, target, 0o755)
            objects.append(target)
            pages = root / f"usr/share/man/man{section}"
            pages.mkdir(parents=True, exist_ok=True)
            manual.write(str(self.build / program), section, pages)
        for path in objects:
            run("strip", "--strip-unneeded", "--remove-section=.comment", str(path))
        return objects

    def place_extras(self, package, root):
        """What is made and not copied: completions, links, pkg-config."""
        if package.name == "canopyctl":
            for shell, to in COMPLETIONS.items():
                path = root / to
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(run(str(self.build / "canopyctl"), "completion", shell))
        if package.name == "canopy-host":
            found = re.findall(r"\(SONAME\).*\[(.*)\]", run("readelf", "-d", str(self.build / LIBRARY)))
            if found != [SONAME]:
                raise SystemExit(f"{LIBRARY} is called {found}, not {SONAME}: build it with CANOPY_HOST_SONAME={SONAME}")
            libraries = root / "usr/lib" / self.multiarch
            (libraries / LIBRARY).symlink_to(SONAME)
            values = {"PREFIX": "/usr", "LIBDIR": f"/usr/lib/{self.multiarch}", "VERSION": self.version.split("~")[0]}
            template = (TOP / "host/capi/canopy-host.pc.in").read_text()
            path = libraries / "pkgconfig/canopy-host.pc"
            path.parent.mkdir()
            path.write_text(re.sub(r"@([A-Z]+)@", lambda found: values[found[1]], template))

    def place_documents(self, package, root):
        """What Debian asks of every package, and the list of what is linked into the programs."""
        documents = root / "usr/share/doc" / package.name
        copy(HERE / "copyright", documents / "copyright", 0o644)
        overrides = HERE / f"lintian/{package.name}"
        if overrides.exists():
            copy(overrides, root / "usr/share/lintian/overrides" / package.name, 0o644)
        if self.sboms:
            copy(self.sboms / f"{package.name}.cdx.json", documents / "sbom.cdx.json", 0o644)
        entry = f"canopy ({self.version}) unstable; urgency=medium\n\n  * See CHANGELOG.md of the source.\n\n"
        (documents / "changelog").write_text(f"{entry} -- {MAINTAINER}  {formatdate(self.epoch)}\n")
        compressed(documents / "changelog")
        for page in (root / "usr/share/man").glob("man*/*"):
            compressed(page)

    def package(self, package):
        """Builds one package; returns its file."""
        with tempfile.TemporaryDirectory() as temporary:
            root = Path(temporary) / "root"
            root.mkdir()
            objects = self.place(package, root)
            self.place_extras(package, root)
            self.place_documents(package, root)
            for directory in [root, *(path for path in root.rglob("*") if path.is_dir())]:
                directory.chmod(0o755)
            files = sorted(path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
            for path in files:
                if not path.stat().st_mode & 0o111:
                    path.chmod(0o644)
            size = sum(path.stat().st_size for path in files) // 1024 + 1
            debian = root / "DEBIAN"
            debian.mkdir(mode=0o755)
            depends = [*needed(objects), *package.depends]
            (debian / "control").write_text(control(package, depends, self.version, self.architecture, size))
            sums = run("md5sum", *(str(path.relative_to(root)) for path in files), cwd=root)
            (debian / "md5sums").write_text(sums)
            if package.conffiles:
                (debian / "conffiles").write_text("".join(f"/{path}\n" for path in package.conffiles.values()))
            if package.name == "canopy-host":
                (debian / "shlibs").write_text(f"libcanopy_host_c 0 canopy-host (>= {self.version.split('~')[0]}~)\n")
                (debian / "triggers").write_text("activate-noawait ldconfig\n")
            for kind in ("postinst", "prerm", "postrm"):
                text = script(kind, package)
                if text:
                    (debian / kind).write_text(text)
                    (debian / kind).chmod(0o755)
            out = self.out / f"{package.name}_{self.version}_{self.architecture}.deb"
            run("dpkg-deb", "--root-owner-group", "-Zxz", "--build", str(root), str(out), env=os.environ | {"SOURCE_DATE_EPOCH": str(self.epoch)})
            return out


def main():
    if len(sys.argv) not in (3, 4):
        raise SystemExit(__doc__)
    build, out = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    sboms = Path(sys.argv[3]).resolve() if len(sys.argv) == 4 else None
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("*.deb"):
        old.unlink()
    builder = Builder(build, out, sboms)
    for package in PACKAGES:
        path = builder.package(package)
        print(f"{path.name}: {path.stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
