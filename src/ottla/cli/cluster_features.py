"""`ottla cluster features`: what the nodes support, what is in force, and the step to a newer release."""

from __future__ import annotations

import argparse

from ottla.cli.output import Column, emit, notice
from ottla.cli.session import CommandError, Session, add_yes_option, confirm
from ottla.client.admin import Admin
from ottla.cluster import features as known

EXAMPLES = """\
  ottla cluster features
  ottla cluster features upgrade              to the newest release that every node supports
  ottla cluster features upgrade 4.4 --yes
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", choices=("upgrade",), help="raise the levels to those of a release")
    parser.add_argument("release", nargs="?", help="the release, such as 4.4 or 4.4-IV2; default: the newest supported")
    add_yes_option(parser)


async def features(session: Session, options: argparse.Namespace) -> None:
    admin = await session.admin()
    if options.action == "upgrade":
        await _upgrade(admin, options)
    found = await admin.describe_features()
    rows = [
        {
            "feature": name,
            "finalized": levels.finalized,
            "min_supported": levels.min_supported,
            "max_supported": levels.max_supported,
        }
        for name, levels in found.features.items()
    ]
    columns = [
        Column("feature", "FEATURE"),
        Column("finalized", "IN FORCE"),
        Column("min_supported", "FROM"),
        Column("max_supported", "TO"),
    ]
    emit(options.output, rows, columns)


async def _upgrade(admin: Admin, options: argparse.Namespace) -> None:
    """Raise features below the release; lower none. The controller refuses a level that a node lacks."""
    found = (await admin.describe_features()).features
    release = options.release
    if release is None:
        supported = min(found[known.METADATA_VERSION].max_supported, known.LATEST_METADATA_VERSION)
        release = known.METADATA_VERSION_NAMES[supported]
    metadata_version = known.release_metadata_version(release)
    if metadata_version is None:
        names = list(known.METADATA_VERSION_NAMES.values())
        raise CommandError(f"there is no release {release}: expected one from {names[0]} to {names[-1]}, such as 4.4")
    wanted = {known.METADATA_VERSION: metadata_version} | {
        name: known.release_level(name, metadata_version)
        for name in known.RELEASE_LEVELS
        if name != known.KRAFT_VERSION
    }
    raised = {name: level for name, level in wanted.items() if name in found and level > found[name].finalized}
    if not raised:
        notice(f"nothing to do: every feature is at the level of {release} or above")
        return
    shown = ", ".join(f"{name} {found[name].finalized} to {level}" for name, level in raised.items())
    confirm(f"raise {shown} (metadata.version cannot be lowered again if its records changed)", options)
    await admin.update_features(raised)
