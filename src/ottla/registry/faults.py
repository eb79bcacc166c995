"""The refusals of the registry, with Confluent's status, error code and message: clients match on the code."""

from __future__ import annotations


class Fault(Exception):
    """A request that is refused."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


def subject_not_found(subject: str) -> Fault:
    return Fault(404, 40401, f"Subject '{subject}' not found.")


def version_not_found(version: object) -> Fault:
    return Fault(404, 40402, f"Version {version} not found.")


def schema_not_found(what: object = None) -> Fault:
    return Fault(404, 40403, "Schema not found" if what is None else f"Schema {what} not found")


def subject_soft_deleted(subject: str) -> Fault:
    return Fault(404, 40404, f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently")


def subject_not_soft_deleted(subject: str) -> Fault:
    return Fault(404, 40405, f"Subject '{subject}' was not deleted first before being permanently deleted")


def version_soft_deleted(subject: str, version: int) -> Fault:
    message = f"Subject '{subject}' Version {version} was soft deleted.Set permanent=true to delete permanently"
    return Fault(404, 40406, message)


def version_not_soft_deleted(subject: str, version: int) -> Fault:
    message = f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted"
    return Fault(404, 40407, message)


def no_subject_config(subject: str) -> Fault:
    return Fault(404, 40408, f"Subject '{subject}' does not have subject-level compatibility configured")


def no_subject_mode(subject: str) -> Fault:
    return Fault(404, 40409, f"Subject '{subject}' does not have subject-level mode configured")


def association_exists(type_: str, resource: str) -> Fault:
    return Fault(409, 40903, f"An association of type '{type_}' already exists for resource '{resource}'")


def subject_associated(subject: str) -> Fault:
    return Fault(409, 40904, f"An association already exists for subject '{subject}'")


def subject_strongly_associated(subject: str) -> Fault:
    return Fault(409, 40905, f"A strong association already exists for subject '{subject}'")


def no_active_version(subject: str) -> Fault:
    return Fault(409, 40907, f"No active (non-deleted) version exists for subject '{subject}'")


def association_frozen(type_: str, subject: str) -> Fault:
    return Fault(409, 40908, f"The association of type '{type_}' is frozen for subject '{subject}'")


def invalid_association(name: str, detail: str) -> Fault:
    message = f"The association specified an invalid value for property: '{name}', detail: {detail}"
    return Fault(422, 42212, message)


def incompatible(message: str) -> Fault:
    return Fault(409, 40901, message)


def invalid_schema(message: str) -> Fault:
    return Fault(422, 42201, message)


def invalid_version(version: object) -> Fault:
    return Fault(
        422,
        42202,
        f"The specified version '{version}' is not a valid version id. "
        'Allowed values are between [1, 2^31-1] and the string "latest"',
    )


def invalid_compatibility() -> Fault:
    return Fault(
        422,
        42203,
        "Invalid compatibility level. Valid values are none, backward, forward, full, "
        "backward_transitive, forward_transitive, and full_transitive",
    )


def invalid_mode(message: str = "Invalid mode. Valid values are READWRITE, READONLY, IMPORT and FORWARD.") -> Fault:
    return Fault(422, 42204, message)


def not_permitted(message: str) -> Fault:
    return Fault(422, 42205, message)


def reference_exists(subject: str, version: int) -> Fault:
    key = f"{{magic=1,keytype=SCHEMA,subject={subject},version={version}}}"
    return Fault(422, 42206, f"One or more references exist to the schema {key}.")


def id_does_not_match(message: str) -> Fault:
    return Fault(422, 42207, message)


def invalid_subject(subject: str) -> Fault:
    return Fault(422, 42208, f"The specified subject '{subject}' is not a valid.")


def schema_too_large(message: str = "Write failed because schema is too large") -> Fault:
    return Fault(422, 42209, message)


def invalid_rule_set(message: str) -> Fault:
    return Fault(422, 42210, message)


def context_not_empty(context: str) -> Fault:
    return Fault(422, 42211, f"The specified context '{context}' is not empty.")


def unprocessable(message: str) -> Fault:
    return Fault(422, 422, message)


def store_failed(message: str) -> Fault:
    return Fault(500, 50001, message)


def too_many(what: str) -> Fault:
    return Fault(429, 42901, what)


def timed_out(message: str) -> Fault:
    return Fault(500, 50002, message)


def forwarding_failed(message: str) -> Fault:
    return Fault(500, 50003, message)


def unknown_leader(message: str) -> Fault:
    return Fault(500, 50004, message)
