"""Files and the ConfigMaps that keep them: nothing is lost, and the same files make the same objects."""

from __future__ import annotations

import base64
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tieline_core.project_files.config_maps import (
    PACK_BYTES,
    FilesMissing,
    config_map,
    files_digest,
    pack,
    source_files,
    unpack,
    version_digest,
    version_name,
)
from tieline_core.resources.projects import FilesConfigMap, KeyToPath, ProjectSource
from tieline_protocol.files import MAX_FILE_BYTES

segments = st.text(st.characters(codec="utf-8", exclude_characters="/\\"), min_size=1, max_size=20)
paths = st.lists(segments, min_size=1, max_size=4).map("/".join)
contents = st.one_of(
    st.binary(max_size=200),
    st.sampled_from([PACK_BYTES - 1, PACK_BYTES, MAX_FILE_BYTES, PACK_BYTES // 2]).map(bytes),
)


PROJECT = {
    "apiVersion": "tieline.dev/v1alpha1",
    "kind": "Project",
    "metadata": {"name": "order-sync", "namespace": "acme", "uid": "p1"},
}


def stored(files: dict[str, bytes]) -> tuple[list[FilesConfigMap], dict[str, Any]]:
    packs = pack("order-sync", files)
    maps = {item.name: config_map(item, PROJECT) for item in packs}
    return [item.reference() for item in packs], maps


@settings(max_examples=60)
@given(st.dictionaries(paths, contents, max_size=8))
def test_files_come_back_from_their_configmaps_as_they_were(files: dict[str, bytes]) -> None:
    references, maps = stored(files)
    assert dict(unpack(references, maps)) == files


@settings(max_examples=60)
@given(st.dictionaries(paths, contents, max_size=8))
def test_every_configmap_is_one_that_kubernetes_accepts(files: dict[str, bytes]) -> None:
    _, maps = stored(files)
    for name, manifest in maps.items():
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", name)
        assert manifest["immutable"]
        values = [base64.b64decode(value) for value in manifest["binaryData"].values()]
        assert sum(map(len, values)) <= MAX_FILE_BYTES
        for key in manifest["binaryData"]:
            assert re.fullmatch(r"[-._a-zA-Z0-9]{1,253}", key)
            assert not key.startswith("..")


@given(st.dictionaries(paths, st.binary(max_size=50), max_size=6), st.randoms())
def test_the_order_of_files_changes_neither_digest_nor_names(files: dict[str, bytes], random: Any) -> None:
    items = list(files.items())
    random.shuffle(items)
    assert files_digest(dict(items)) == files_digest(files)
    assert [item.name for item in pack("p", dict(items))] == [item.name for item in pack("p", files)]


def test_a_file_of_one_mebibyte_gets_a_configmap_of_its_own_and_a_larger_one_is_refused() -> None:
    packs = pack("p", {"a.py": b"x", "large.bin": bytes(MAX_FILE_BYTES), "z.py": b"y"})
    assert [sorted(item.paths.values()) for item in packs] == [["a.py"], ["large.bin"], ["z.py"]]
    with pytest.raises(ValueError, match="holds 1048576"):
        pack("p", {"large.bin": bytes(MAX_FILE_BYTES + 1)})


def test_paths_that_make_the_same_key_are_kept_apart() -> None:
    files = {"shop/orders.py": b"1", "shop__orders.py": b"2", "shöp.py": b"3", "shäp.py": b"4"}
    references, maps = stored(files)
    assert dict(unpack(references, maps)) == files


def test_labels_make_another_version_of_the_same_files() -> None:
    digest = files_digest({"main.py": b""})
    assert version_digest(digest, {}) == digest
    assert version_digest(digest, {"team": "ops"}) != version_digest(digest, {"team": "dev"})
    assert version_name("order-sync", digest, {}) == f"order-sync-{digest[:12]}"
    assert len(version_name("x" * 253, digest, {})) <= 53


def test_sources_may_be_inline_and_in_configmaps() -> None:
    source = ProjectSource.model_validate(
        {
            "files": [{"filename": "main.py", "content": "é"}],
            "configMaps": [
                {"name": "all"},
                {"name": "some", "items": [{"key": "o.py", "path": "shop/orders.py"}]},
            ],
        }
    )
    maps = {
        "all": {"metadata": {"name": "all"}, "data": {"a.py": "1"}, "binaryData": {"b.bin": "AAE="}},
        "some": {"metadata": {"name": "some"}, "data": {"o.py": "2", "unused.py": "3"}},
    }
    assert source_files(source, maps) == [
        ("main.py", "é".encode()),
        ("a.py", b"1"),
        ("b.bin", b"\x00\x01"),
        ("shop/orders.py", b"2"),
    ]


def test_a_missing_configmap_or_key_is_named() -> None:
    with pytest.raises(FilesMissing, match='"code" does not exist'):
        unpack([FilesConfigMap(name="code")], {})
    reference = FilesConfigMap(name="code", items=[KeyToPath(key="a", path="a.py")])
    with pytest.raises(FilesMissing, match='no key "a"'):
        unpack([reference], {"code": {"metadata": {"name": "code"}}})
