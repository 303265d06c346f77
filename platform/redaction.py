"""Detection and masking of secrets in addresses."""

from __future__ import annotations

from urllib.parse import parse_qs, urlencode, urlsplit, urlunsplit

_SECRET_WORDS = ("user", "pass", "token", "secret", "key")
_HIDDEN = "..."


def holds_secret(uri: str) -> bool:
    """Whether an address has a user or a possibly secret setting. Raises ValueError for an invalid address."""
    parts = urlsplit(uri)
    return "@" in parts.netloc or any(_is_secret(key) for key in parse_qs(parts.query, keep_blank_values=True))


def without_secrets(text: str) -> str:
    """Return an address with possible secrets replaced by dots; return any other text unchanged."""
    try:
        if "://" not in text or not holds_secret(text):
            return text
        parts = urlsplit(text)
    except ValueError:
        return text
    host = f"{_HIDDEN}@{parts.netloc.rpartition('@')[2]}" if "@" in parts.netloc else parts.netloc
    settings = parse_qs(parts.query, keep_blank_values=True)
    shown = {key: [_HIDDEN] if _is_secret(key) else values for key, values in settings.items()}
    return urlunsplit(parts._replace(netloc=host, query=urlencode(shown, doseq=True)))


def _is_secret(key: str) -> bool:
    return any(word in key.lower() for word in _SECRET_WORDS)
