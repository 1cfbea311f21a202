# SPDX-License-Identifier: Apache-2.0
"""The filter `to_toml`: a configuration file of Canopy from a dictionary."""

from __future__ import annotations

import json

from ansible.errors import AnsibleFilterError

DOCUMENTATION = r"""
name: to_toml
short_description: A configuration file of Canopy from a dictionary
description:
  - Writes keys in their alphabetical order, and after them one table for each value that is a dictionary.
  - Values are text, numbers, booleans, and lists of these.
options:
  _input:
    description: Keys and values; a value that is a dictionary is a table.
    type: dict
    required: true
"""

EXAMPLES = r"""
# controller = "https://[2001:db8::1]:8641"
#
# [stamp]
# port = 862
settings: "{{ {'controller': 'https://[2001:db8::1]:8641', 'stamp': {'port': 862}} | canopy.sdn.to_toml }}"
"""

RETURN = r"""
_value:
  description: The file.
  type: str
"""


def value(key, of):
    """One value as TOML."""
    if isinstance(of, bool):
        return "true" if of else "false"
    if isinstance(of, (int, float)):
        return repr(of)
    if isinstance(of, str):
        # JSON's escapes are TOML's; DEL is the only character that JSON leaves as it is and TOML does not take.
        return json.dumps(of, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(of, (list, tuple)):
        return "[" + ", ".join(value(key, item) for item in of) + "]"
    raise AnsibleFilterError(f"to_toml: {key} is {type(of).__name__}; it has to be text, a number, a boolean, or a list of these")


def to_toml(settings, table=""):
    """The file, or one table of it."""
    if not isinstance(settings, dict):
        raise AnsibleFilterError(f"to_toml: a dictionary is needed, not {type(settings).__name__}")
    lines, tables = [], []
    for key, of in sorted(settings.items()):
        name = f"{table}.{key}" if table else str(key)
        if isinstance(of, dict):
            tables.append(f"\n[{name}]\n{to_toml(of, name)}")
        else:
            lines.append(f"{key} = {value(name, of)}\n")
    return "".join(lines + tables)


class FilterModule:
    """The filters of this file."""

    def filters(self):
        return {"to_toml": to_toml}
