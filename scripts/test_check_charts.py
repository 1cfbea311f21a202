#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of scripts/check-charts.py, and of what the schema of the chart's values refuses."""

import importlib.util
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True  # no __pycache__ in the sources
SPEC = importlib.util.spec_from_file_location("check_charts", Path(__file__).with_name("check-charts.py"))
charts = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(charts)


class Values(unittest.TestCase):
    """One value at a time."""

    def refused(self, values, *parts):
        found = charts.faults_of_values(values)
        self.assertTrue(found, values)
        for part in parts:
            self.assertIn(part, found[0])

    def test_more_than_one_controller_is_refused(self):
        self.refused({"controller": {"replicas": 2}}, "controller.replicas", "1 was expected")
        self.refused({"controller": {"replicas": 0}}, "controller.replicas")
        self.assertEqual(charts.faults_of_values({"controller": {"replicas": 1}}), [])

    def test_unknown_values_are_refused_at_every_depth(self):
        for values in ({"agents": {}}, {"agent": {"hostPath": {}}}, {"images": {"agent": {"repository": "a", "registry": "b"}}}):
            self.refused(values, "Additional properties are not allowed")

    def test_a_digest_is_whole(self):
        self.refused({"images": {"agent": {"repository": "a", "digest": "sha256:12"}}}, "images.agent.digest")

    def test_the_controller_is_an_address_over_tls(self):
        for url in ("http://c:8641", "https://c", "unix:/run/canopy/controller.sock"):
            self.refused({"agent": {"controller": url}}, "agent.controller")
        self.assertEqual(charts.faults_of_values({"agent": {"controller": "https://[fd00::1]:8641"}}), [])


class Manifests(unittest.TestCase):
    """One object at a time."""

    def faults(self, **spec):
        metadata = {"name": "canopy"}
        return list(charts.faults_of({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}))

    def test_a_field_that_no_version_knows_is_a_fault_of_each(self):
        self.assertEqual(self.faults(ports=[{"port": 1}]), [])
        found = self.faults(ports=[{"port": 1}], replicas=1)
        self.assertEqual([fault.split(":")[1].strip() for fault in found], list(charts.VERSIONS))
        self.assertIn("replicas", found[0])

    def test_an_unknown_kind_is_a_fault(self):
        found = list(charts.faults_of({"apiVersion": "apps/v1", "kind": "DaemonSets", "metadata": {"name": "x"}}))
        self.assertEqual(len(found), len(charts.VERSIONS))


if __name__ == "__main__":
    unittest.main()
