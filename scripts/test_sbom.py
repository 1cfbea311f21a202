#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The document that sbom.py makes of those of several crates."""

import sys
import unittest

sys.dont_write_bytecode = True  # no __pycache__ in the sources
import sbom  # noqa: E402


def document(name, uses):
    """What cargo-cyclonedx writes of a crate."""
    component = {"bom-ref": name, "name": name, "version": "0.1.0"}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": "urn:uuid:1",
        "metadata": {"timestamp": "now", "component": component},
        "components": [{"bom-ref": used, "name": used} for used in uses],
        "dependencies": [{"ref": name, "dependsOn": uses}],
    }


class Merged(unittest.TestCase):
    def test_every_component_is_there_once_and_nothing_of_the_run(self):
        one = sbom.merged("both", [document("a", ["x", "y"]), document("b", ["y", "z"])])
        self.assertEqual([component["name"] for component in one["components"]], ["a", "b", "x", "y", "z"])
        self.assertEqual({d["ref"]: d["dependsOn"] for d in one["dependencies"]}, {"a": ["x", "y"], "b": ["y", "z"]})
        self.assertEqual(one["metadata"], {"component": {"type": "application", "name": "both", "version": "0.1.0"}})
        self.assertNotIn("serialNumber", one)

    def test_paths_of_the_machine_are_not_in_it(self):
        text = '"path+file:///home/user/canopy/controller/api#canopy-controller-api@0.1.0"'
        self.assertEqual(sbom.PATH.sub(r"path+file:///\1#", text), '"path+file:///api#canopy-controller-api@0.1.0"')


if __name__ == "__main__":
    unittest.main()
