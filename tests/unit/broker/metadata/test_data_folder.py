"""Who a data folder belongs to."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from ottla.broker.metadata.data_folder import DataFolderError, format_data_folder, new_uuid
from ottla.storage import MetaProperties, OsDisk, read_meta_properties, write_meta_properties
from ottla.wire.primitives import uuid_text

KAFKAS_FOLDER = Path(__file__).parents[1] / "kafka-4.3.1"


def test_kafkas_meta_properties_are_read() -> None:
    meta = read_meta_properties(OsDisk(), str(KAFKAS_FOLDER))
    assert meta is not None
    assert (meta.cluster_id, meta.node_id) == ("AAAAAAAAAAAAAAAAAAAAAQ", 1)
    assert meta.directory_id is not None and uuid_text(meta.directory_id) == "fkt20owhFFzhbZwTTZActw"


def test_log_dirs_share_a_cluster_and_have_ids_of_their_own(tmp_path: Path) -> None:
    directories = [str(tmp_path / name) for name in ("a", "b")]
    first = format_data_folder(OsDisk(), directories, 1, Random(1))
    metas = [read_meta_properties(OsDisk(), directory) for directory in directories]
    assert metas[0] == first
    assert metas[1] is not None and metas[1].cluster_id == first.cluster_id
    assert metas[1].directory_id != first.directory_id
    assert format_data_folder(OsDisk(), directories, 1, Random(2)) == first


def test_a_new_log_dir_joins_the_cluster_of_the_others(tmp_path: Path) -> None:
    old, new = str(tmp_path / "old"), str(tmp_path / "new")
    first = format_data_folder(OsDisk(), [old], 1, Random(1))
    assert format_data_folder(OsDisk(), [new, old], 1, Random(2)).cluster_id == first.cluster_id


def test_a_folder_of_another_node_or_cluster_is_refused(tmp_path: Path) -> None:
    first, second = str(tmp_path / "a"), str(tmp_path / "b")
    format_data_folder(OsDisk(), [first], 1, Random(1))
    with pytest.raises(DataFolderError, match="belongs to node 1"):
        format_data_folder(OsDisk(), [first], 2, Random(1))
    format_data_folder(OsDisk(), [second], 1, Random(2))
    with pytest.raises(DataFolderError, match="belongs to cluster"):
        format_data_folder(OsDisk(), [first, second], 1, Random(1))


def test_a_log_dir_without_an_id_gets_one(tmp_path: Path) -> None:
    write_meta_properties(OsDisk(), str(tmp_path), MetaProperties("cluster", 1))
    assert format_data_folder(OsDisk(), [str(tmp_path)], 1, Random(1)).directory_id is not None


@pytest.mark.parametrize("text", ["", "version=9", "version=1\nnode.id=x\ncluster.id=c", "version=1\nnode.id=1"])
def test_damaged_meta_properties_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "meta.properties").write_text(text)
    with pytest.raises(DataFolderError):
        format_data_folder(OsDisk(), [str(tmp_path)], 1, Random(1))


def test_ids_are_random_uuids_that_tools_do_not_take_for_options() -> None:
    rng = Random(3)
    for _ in range(500):
        drawn = new_uuid(rng)
        assert drawn[6] >> 4 == 4 and drawn[8] >> 6 == 2
        assert not uuid_text(drawn).startswith("-")
