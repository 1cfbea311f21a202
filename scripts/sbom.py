#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One CycloneDX document of a package from those of its crates, without what changes from run to run and without paths of this machine.

    sbom.py PACKAGE CRATE.json...
"""

import json
import re
import sys
from pathlib import Path

PATH = re.compile(r"path\+file://[^#]*?([^/#]+)#")


def merged(package, documents):
    """The components and dependencies of all documents, each once, in one document about `package`."""
    components, dependencies = {}, {}
    for document in documents:
        for component in [document["metadata"]["component"], *document.get("components", [])]:
            components.setdefault(component["bom-ref"], component)
        for dependency in document.get("dependencies", []):
            known = dependencies.setdefault(dependency["ref"], set())
            known.update(dependency.get("dependsOn", []))
    first = documents[0]
    return {
        "bomFormat": first["bomFormat"],
        "specVersion": first["specVersion"],
        "version": 1,
        "metadata": {"component": {"type": "application", "name": package, "version": first["metadata"]["component"]["version"]}},
        "components": [components[ref] for ref in sorted(components)],
        "dependencies": [{"ref": ref, "dependsOn": sorted(dependencies[ref])} for ref in sorted(dependencies)],
    }


def main():
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    documents = [json.loads(Path(path).read_text()) for path in sys.argv[2:]]
    text = json.dumps(merged(sys.argv[1], documents), indent=1)
    print(PATH.sub(r"path+file:///\1#", text))


if __name__ == "__main__":
    main()
