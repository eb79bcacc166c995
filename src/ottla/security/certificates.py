"""What a certificate says of its owner: the distinguished name as Java writes it, and the subject alternative names.

A certificate is read as far as that needs, from its DER. Kafka's principal of a TLS client is the name in the form of
RFC 2253: `CN=orders,OU=shop,O=example`, the most specific part first.
"""

from __future__ import annotations

from base64 import b64decode

_SEQUENCE, _SET, _CONTEXT_0, _CONTEXT_3, _OID, _OCTETS, _BOOLEAN = 0x30, 0x31, 0xA0, 0xA3, 0x06, 0x04, 0x01
_STRINGS = {
    0x0C: "utf-8",
    0x13: "ascii",
    0x14: "latin-1",
    0x16: "ascii",
    0x1B: "ascii",
    0x1C: "utf-32-be",
    0x1E: "utf-16-be",
}
"""By tag, how the text of a name is written."""
_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
"""The attributes of RFC 2253; others appear under their number, with their value in hex."""
_SUBJECT_ALT_NAME = "2.5.29.17"
_ESCAPED = ',=+<>#;"\\'


class CertificateError(ValueError):
    """The bytes are no certificate."""


def subject_name(der: bytes) -> str:
    """The distinguished name of a certificate's owner, as Kafka gives it to principal mapping."""
    return _format_name(_subject(der)[0])


def subject_alternative_names(der: bytes) -> frozenset[bytes]:
    """The other names of its owner (DNS names, addresses), each in DER."""
    _, rest = _subject(der)
    for tag, extensions in rest:
        if tag != _CONTEXT_3:
            continue
        for _, extension in _elements(_single(extensions, _SEQUENCE)):
            fields = _elements(extension)
            if fields and fields[0][0] == _OID and _format_oid(fields[0][1]) == _SUBJECT_ALT_NAME:
                value = fields[-1][1]
                return frozenset(bytes([kind]) + name for kind, name in _elements(_single(value, _SEQUENCE)))
    return frozenset()


def from_pem(pem: str) -> bytes:
    """The DER of a certificate in PEM."""
    lines = [line for line in pem.strip().splitlines() if not line.startswith("-")]
    return b64decode("".join(lines))


def _subject(der: bytes) -> tuple[bytes, list[tuple[int, bytes]]]:
    """The name of a certificate's owner, and the fields after it."""
    certificate = _elements(_single(der, _SEQUENCE))
    if not certificate or certificate[0][0] != _SEQUENCE:
        raise CertificateError("the bytes are no certificate")
    fields = _elements(certificate[0][1])
    start = 1 if fields and fields[0][0] == _CONTEXT_0 else 0  # the version
    # Serial number, algorithm, issuer and validity come before the subject.
    if len(fields) < start + 6 or fields[start + 4][0] != _SEQUENCE:
        raise CertificateError("the bytes are no certificate")
    return fields[start + 4][1], fields[start + 5 :]


def _elements(content: bytes) -> list[tuple[int, bytes]]:
    """Tag and content of each element in DER."""
    found = []
    position, end = 0, len(content)
    while position < end:
        if position + 2 > end:
            raise CertificateError("the certificate is cut off")
        tag, size = content[position], content[position + 1]
        position += 2
        if size & 0x80:
            width = size & 0x7F
            if not 1 <= width <= 4 or position + width > end:
                raise CertificateError("the certificate is damaged")
            size = int.from_bytes(content[position : position + width], "big")
            position += width
        if position + size > end:
            raise CertificateError("the certificate is cut off")
        found.append((tag, content[position : position + size]))
        position += size
    return found


def _single(content: bytes, tag: int) -> bytes:
    found = _elements(content)
    if len(found) != 1 or found[0][0] != tag:
        raise CertificateError("the certificate is damaged")
    return found[0][1]


def _format_name(name: bytes) -> str:
    relative_names = []
    for tag, relative in _elements(name):
        if tag != _SET:
            raise CertificateError("the certificate's name is damaged")
        relative_names.append("+".join(_format_attribute(content) for _, content in _elements(relative)))
    return ",".join(reversed(relative_names))


def _format_attribute(content: bytes) -> str:
    fields = _elements(content)
    if len(fields) != 2 or fields[0][0] != _OID:
        raise CertificateError("the certificate's name is damaged")
    oid = _format_oid(fields[0][1])
    tag, value = fields[1]
    keyword = _KEYWORDS.get(oid)
    encoding = _STRINGS.get(tag)
    if keyword is None or encoding is None:
        return f"{keyword or oid}=#{_encoded(tag, value).hex()}"
    return f"{keyword}={_escape(value.decode(encoding, 'replace'))}"


def _encoded(tag: int, value: bytes) -> bytes:
    size = len(value)
    if size < 0x80:
        return bytes([tag, size]) + value
    width = (size.bit_length() + 7) // 8
    return bytes([tag, 0x80 | width]) + size.to_bytes(width, "big") + value


def _escape(value: str) -> str:
    text = value.strip(" ")
    lead = len(value) - len(value.lstrip(" "))
    trail = len(value) - lead - len(text)
    escaped = "".join("\\" + c if c in _ESCAPED else "\\00" if c == "\0" else c for c in text)
    return "\\ " * lead + escaped + "\\ " * trail


def _format_oid(content: bytes) -> str:
    if not content or content[-1] & 0x80:
        raise CertificateError("the certificate is damaged")
    numbers: list[int] = []
    value = 0
    for byte in content:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
