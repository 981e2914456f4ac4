"""YAML as settings are written in: no key twice, and no bytes."""

from __future__ import annotations

from typing import Any, ClassVar

from yaml import MappingNode, SafeLoader
from yaml.constructor import ConstructorError


class Loader(SafeLoader):
    """``SafeLoader`` that refuses a key that is there twice, of which it would keep the last, and ``!!binary``."""

    yaml_constructors: ClassVar = {
        tag: make for tag, make in SafeLoader.yaml_constructors.items() if tag != "tag:yaml.org,2002:binary"
    }

    def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key.value, str) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise ConstructorError(None, None, "a key is there more than once", key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)
