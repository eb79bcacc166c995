"""The assignors that run in the coordinator, by name."""

from ottla.groups.assignors.assignment import EMPTY, Assignment, Assignor, GroupSpec, MemberSpec
from ottla.groups.assignors.range import assign_range
from ottla.groups.assignors.uniform import assign_uniform

ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}

_JAVA_NAMES = {
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
}


def assignor_names(setting: tuple[str, ...]) -> list[str]:
    """The names in `group.consumer.assignors`, where they may be Java class names; the first is the default. Assignors
    that only a Java broker could load are skipped.
    """
    names = (_JAVA_NAMES.get(name, name) for name in setting)
    return [name for name in dict.fromkeys(names) if name in ASSIGNORS] or ["uniform"]


__all__ = ["ASSIGNORS", "EMPTY", "Assignment", "Assignor", "GroupSpec", "MemberSpec", "assignor_names"]
