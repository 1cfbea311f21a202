#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the lint in scripts/dashboards.py: it finds what makes a panel useless."""

import json
import unittest

import dashboards

KNOWN = {"canopy_groups", "canopy_link_bytes_total", "canopy:link_load:ratio1m"}


def made(*panels, variables=()):
    """A dashboard's JSON, parsed."""
    board = dashboards.board("canopy-test", "Test", "A test.", variables, panels)
    return json.loads(dashboards.encoded(board))


def panel(expression="canopy_groups", title="Groups", description="All of them.", unit="short", legend="x"):
    """A graph."""
    return dashboards.graph(title, description, unit, (expression, legend))


class Lint(unittest.TestCase):
    """One fault at a time."""

    def faults(self, *panels, variables=()):
        return list(dashboards.lint(made(*panels, variables=variables), KNOWN))

    def test_a_good_one_has_no_fault(self):
        load = panel('rate(canopy_link_bytes_total{port="canopy_x"}[1m]) / canopy:link_load:ratio1m > 0', title="Load")
        self.assertEqual(self.faults(panel(), load), [])
        self.assertEqual(list(dashboards.problems("t", dashboards.encoded(made(panel())), KNOWN)), [])

    def test_series_that_do_not_exist(self):
        self.assertIn("canopy_group", self.faults(panel("sum(canopy_group)"))[0])
        self.assertIn("canopy_link_bytes", self.faults(panel("canopy_link_bytes"))[0])
        self.assertIn("queries nothing", self.faults(panel("vector(0)"))[0])

    def test_what_a_reader_needs(self):
        self.assertIn("description", self.faults(panel(description="All"))[0])
        self.assertIn("unit", self.faults(panel(unit=""))[0])
        self.assertIn("legend", self.faults(panel(legend=""))[0])
        self.assertIn("twice", self.faults(panel(), panel())[0])

    def test_panels_that_overlap(self):
        board = made(panel(), panel(title="Others"))
        board["panels"][1]["gridPos"]["x"] = 6
        self.assertIn("overlaps", list(dashboards.lint(board, KNOWN))[0])

    def test_a_fixed_data_source_and_a_variable_without_use(self):
        board = made(panel())
        board["panels"][0]["datasource"]["uid"] = "P1809F7CD0C75ACF3"
        self.assertIn("fixed", list(dashboards.lint(board, KNOWN))[0])
        self.assertIn("not used", self.faults(panel(), variables=[dashboards.GROUP])[0])

    def test_fields_that_grafana_does_not_know(self):
        board = made(panel())
        board["titel"] = "x"
        text = json.dumps(board, sort_keys=True, indent=2) + "\n"
        self.assertIn("schema", list(dashboards.problems("t", text, KNOWN))[0])


if __name__ == "__main__":
    unittest.main()
