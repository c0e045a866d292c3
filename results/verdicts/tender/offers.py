"""Offers of vendors: two offers with one system tag are two systems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from record.part import changed
from results.find.records import Found, RecordError


def names_of_offers(texts: Sequence[str], folders: Sequence[Path]) -> dict[Path, str]:
    """Return the name of each folder's offer from texts such as `NAME=FOLDER`; by default the folder is the name.

    Raises RecordError for a text of another form, and for a folder that is not among those given.
    """
    names = {folder: str(folder) for folder in folders}
    for text in texts:
        name, _, folder = text.partition("=")
        if not name or Path(folder) not in names:
            raise RecordError(
                f"--offer {text}: write NAME=FOLDER, where FOLDER is one of {', '.join(map(str, folders))}"
            )
        names[Path(folder)] = name
    return names


def split_offers(found: Found, names: Mapping[Path, str]) -> dict[str, str]:
    """Rename a system that is in several offers to `TAG (OFFER)` in each; return the tags by new name.

    A tag whose folders share no benchmark is one offer in several folders.
    """

    def offer_of(path: Path) -> str:
        return next((name for folder, name in names.items() if path.is_relative_to(folder)), "")

    offers: dict[tuple[str, str], set[str]] = {}
    for record in found.records:
        offer = offer_of(Path(record.file.path))
        offers.setdefault((record.system, record.benchmark), set()).add(offer)
    split = {tag for (tag, _), several in offers.items() if len(several) > 1}
    tags = {}
    for index, record in enumerate(found.records):
        if (tag := record.system) in split:
            found.records[index] = changed(record, system=f"{tag} ({offer_of(Path(record.file.path))})")
            tags[found.records[index].system] = tag
    for index, one in enumerate(found.skipped):
        if one.systems:
            renamed = (f"{tag} ({offer_of(one.path)})" if tag in split else tag for tag in one.systems)
            found.skipped[index] = one._replace(systems=tuple(renamed))
    return tags
