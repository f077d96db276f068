"""Data that another version of Tokenmart wrote: refused with one line, never read by half."""

from __future__ import annotations

from pathlib import Path

from warehouse.errors import StorageError
from warehouse.remote import RemotePath
from warehouse.store.schema import SCHEMA_VERSION


class OtherVersionError(StorageError):
    """A token file or folder was written by another version of Tokenmart."""


def refuse_version(path: Path, found: bytes | str | None) -> None:
    """Stop when a token file was not written with this version's schema.

    Args:
        path: the file.
        found: the version in its footer; None in files of the first version, which wrote none.

    Raises:
        OtherVersionError: always, unless `found` is this version.
    """
    version = found.decode() if isinstance(found, bytes) else found or "1"
    if version != str(SCHEMA_VERSION):
        raise _other_version(path, f"schema version {version}; this one reads {SCHEMA_VERSION}")


def refuse_earlier_folders(data: Path, problem: str = "*", model_id: str = "*") -> None:
    """Stop when the data folder has the partition folders of an earlier version.

    Args:
        data: the data folder.
        problem: look only at this problem's folders.
        model_id: look only at this model's folders.

    Raises:
        OtherVersionError: there is such a folder.
    """
    if isinstance(data, RemotePath):  # no earlier version wrote to one
        return
    for table in ("tokens", "pending"):
        for folder in (data / table).glob(f"problem={problem}/model_id={model_id}/probe=*"):
            raise _other_version(folder, "folders probe=…; this one has condition=…")


def _other_version(path: Path, what: str) -> OtherVersionError:
    data = next(up.parent for up in path.parents if up.name in ("tokens", "pending"))
    return OtherVersionError(
        f"{path}: written by another version of Tokenmart ({what}); move {data / 'tokens'} and "
        f"{data / 'pending'} away and run `tokenmart extract` again"
    )
